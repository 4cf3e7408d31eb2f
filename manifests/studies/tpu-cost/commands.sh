# ResNet-50 on one Cloud TPU v2 (four chips) and on four V100: cost of a million images, from RiseML's figures of April 2018.
here=$(dirname "$0")
scalecurve import "$here/tpu-v2.csv" --into results/tpu-v2 --set mode=weak
scalecurve import "$here/v100.csv" --into results/v100 --set mode=weak
scalecurve cost results/tpu-v2 results/v100 --label TPU-v2 --label V100
