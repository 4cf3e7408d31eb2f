# Arithmetic from the network alone; nothing runs. The page: docs/studies/vgg19-flop-shares.md
scalebench network show vgg19
scalebench network show vgg19 --flops lu
scalebench network show vgg16
