"""What drivers offer, as ResourceSlices in the cluster."""
