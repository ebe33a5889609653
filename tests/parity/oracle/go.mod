// Each release of Kubernetes has a module file of its own, 1.35.mod and so on; Go reads this one
// only to find the folder.
module muster/parity/oracle
