module scalecurve.dev/build/pause

go 1.26.0
