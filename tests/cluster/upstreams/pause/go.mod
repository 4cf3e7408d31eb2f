module scalebench.dev/build/pause

go 1.26.0
