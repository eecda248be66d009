"""The rules, one module per concern, one function per question; `decide` has the order in which they are asked."""
