from scalecurve_models.networks import count, shipped
from scalecurve_models.networks.tables import describe, macs, weights


def test_arithmetic_is_spelled_out():
    vgg = {entry.name: entry for entry in count(shipped("vgg16"))}
    assert weights(vgg["conv1_2"]) == "(3*3*64)*64 = 36,864"
    assert macs(vgg["conv1_2"]) == "(3*3*64)*64*(224*224) = 1,849,688,064"
    assert weights(vgg["fc6"]) == "(7*7*512)*4096 = 102,760,448"
    assert weights(vgg["fc7"]) == macs(vgg["fc7"]) == "4096*4096 = 16,777,216"
    assert (weights(vgg["pool1"]), describe(vgg["pool1"])) == ("", "maxpool 2x2 /2")
    alexnet = {entry.name: entry for entry in count(shipped("alexnet"))}
    assert weights(alexnet["conv2"]) == "(5*5*48)*256 = 307,200"
    assert (describe(alexnet["conv2"]), describe(alexnet["conv1"])) == ("conv 5x5 groups 2", "conv 11x11 /4")
    inception = {entry.name: entry for entry in count(shipped("inception_v3"))}
    assert weights(inception["mixed_6b/7_1x7"]) == "(1*7*128)*128 = 114,688"


def test_every_spelled_product_is_what_it_says():
    for name in ("alexnet", "googlenet", "inception_v3_torchvision", "resnet50", "alex_v2_2gpu"):
        for entry in count(shipped(name)):
            for text in (weights(entry), macs(entry)):
                product, _, result = text.partition(" = ")
                if result:
                    assert eval(product, {"__builtins__": {}}) == int(result.replace(",", ""))
