"""Controllers of PersistentVolumes and PersistentVolumeClaims, and the provisioner of a lab's own volumes."""
