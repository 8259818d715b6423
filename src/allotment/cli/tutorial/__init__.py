"""``allot tutorial``: first steps with devices in a lab; the program checks each step."""
