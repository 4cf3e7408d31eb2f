# A model's rates and bounds; nothing runs. The page: docs/studies/k80-inference.md
nets="alexnet vgg16 vgg19 googlenet inception_v3 resnet50"
scalecurve network inference $nets --device K80_BOOST
scalecurve network inference $nets --device K80_BOOST --flops mac
scalecurve network inference $nets --device K80_GPU
