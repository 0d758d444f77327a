package render

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"g8s.host/gpu-scheduler/pkg/workload"
)

func (r *renderer) newService() *corev1.Service {
	s := r.job.Service
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: r.objectMeta(ServiceName(r.job.Name)),
		Spec: corev1.ServiceSpec{
			Type:     s.Type,
			Selector: map[string]string{"app": TopName(r.job.Kind, r.job.Name)},
			Ports:    []corev1.ServicePort{{Port: s.Port, TargetPort: intstr.FromInt32(s.TargetPort), Protocol: s.Protocol}},
		},
	}
}

// startupPeriod is the interval between two probes of a starting container.
const startupPeriod = 10 * time.Second

// setProbes configures health probes. Liveness is probed only after the startup probe has succeeded once: loading a large model takes minutes, during
// which the other probes would kill the container.
func setProbes(c *corev1.Container, s *workload.Service) {
	if s.HealthCheck == "" {
		return
	}
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: s.HealthCheck, Port: intstr.FromInt32(s.TargetPort)},
		}}
	}
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe(), probe(), probe()
	c.StartupProbe.PeriodSeconds = int32(startupPeriod.Seconds())
	c.StartupProbe.FailureThreshold = int32((s.StartupTimeout + startupPeriod - 1) / startupPeriod)
}
