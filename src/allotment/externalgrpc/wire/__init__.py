"""Made by ``scripts/protos`` from ``externalgrpc/protos``; what is wrong here is to be changed there."""
