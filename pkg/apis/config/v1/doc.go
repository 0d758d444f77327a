// Package v1 holds the arguments of our scheduler plugins, as an SRE writes them under
// profiles[].pluginConfig[].args of a KubeSchedulerConfiguration: their types, defaults and validation.
//
// kube-scheduler decodes arguments only as kind <plugin name>Args of its own API group, and strictly.
// Each Go type serves as that group's external and internal version at once, so nothing is converted:
// see AddToScheme.
//
// +kubebuilder:object:generate=true
package v1
