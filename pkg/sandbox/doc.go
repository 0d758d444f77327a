// Package sandbox runs a real Kubernetes control plane as child processes of the caller: etcd and
// kube-apiserver (by controller-runtime's envtest), kube-controller-manager, kwok for simulated nodes, and
// our own binaries. It serves the integration tests, the demo and `gpu-sandbox`.
//
// Everything of one sandbox is in one directory and on free ports of 127.0.0.1, so that several run side by
// side. Nothing outlives the caller: a watchdog ends the children and removes the directory when the caller
// dies, even by SIGKILL.
//
// Real are the API server, its storage, admission and RBAC, the controllers and the scheduler. Simulated are
// the nodes and what a kubelet does with a pod; see the annotations of this package for how a pod finishes
// or fails.
package sandbox
