// Package realnode adds a real node to a sandbox: kubelet, containerd and runc on this machine, beside the simulated
// ones. It needs root and Linux; [InspectMachine] says what else, and why a machine cannot.
//
// The node is a PID namespace and a mount namespace. Everything that it runs, containers included, ends with the first
// process of the PID namespace, and every mount goes with the last. /run, /var/lib and /var/log of the node are folders
// of the sandbox, so that the paths that are written into kubelet and containerd are free for each node. The kernel
// settings that kubelet changes are files of its own: the machine's stay as they are. Outside of the sandbox's folder
// there is one cgroup, which the sandbox's watchdog removes.
//
// Images are made of our static programs, without a registry. GPUs do not exist; gpu-agent is told of them by a file.
package realnode
