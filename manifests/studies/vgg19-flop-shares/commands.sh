# Arithmetic from the network alone; nothing runs. The page: docs/studies/vgg19-flop-shares.md
scalecurve network show vgg19
scalecurve network show vgg19 --flops lu
scalecurve network show vgg16
