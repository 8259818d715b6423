"""What hardware publishes: profiles of accelerators and servers turned into ResourceSlices."""
