"""Made by ``scripts/protos`` from ``plugin/protos``; what is wrong here is to be changed there."""
