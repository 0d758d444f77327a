// Package scheme enables kube-scheduler to decode, default and write back the arguments of the plugins in our registry. Import it for its effect
// wherever a KubeSchedulerConfiguration is read.
package scheme

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	defaults "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	// The arguments of the plugins that we register from scheduler-plugins.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
)

// Both registrations are needed: kube-scheduler decodes a configuration with a scheme that exists already,
// and defaults and converts plugin arguments with a second one, which it builds on first use.
func init() {
	utilruntime.Must(configv1.AddToScheme(scheme.Scheme))
	kubeschedulerv1.SchemeBuilder.Register(configv1.AddToScheme)
	addOld(scheme.Scheme)
	scheme.Scheme.AddTypeDefaultingFunc(&kubeschedulerv1.KubeSchedulerConfiguration{}, setDefaults)
}

// setDefaults replaces kube-scheduler's own defaults, which it sets last.
func setDefaults(obj any) {
	cfg, ok := obj.(*kubeschedulerv1.KubeSchedulerConfiguration)
	if !ok {
		return
	}
	for i := range cfg.Profiles {
		addReserve(cfg.Profiles[i].Plugins)
	}
	defaults.SetObjectDefaults_KubeSchedulerConfiguration(cfg)
}
