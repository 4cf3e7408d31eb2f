# A lab's training on T4 and on V100, each at its own price: time and cost in one table, and one plot of both.
here=$(dirname "$0")
scalecurve import "$here/t4.csv" --into results/t4 --set mode=weak
scalecurve import "$here/v100.csv" --into results/v100 --set mode=weak
price="--per-worker-hour t4=0.35,v100=2.48 --dataset-samples 24486 --epochs 30"
scalecurve cost results/t4 results/v100 $price
scalecurve fit results/t4 results/v100
scalecurve report results/t4 results/v100 $price --out results/t4-v100
