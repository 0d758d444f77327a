package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Service is how a long-running job is reached, and how often it runs.
type Service struct {
	Replicas int32
	// Port is the port of the Service; 0 if the job listens on none.
	Port int32
	// TargetPort is the port on which the container listens.
	TargetPort int32
	// Protocol is what is spoken on the port; empty is TCP.
	Protocol corev1.Protocol
	Type     corev1.ServiceType
	// HealthCheck is the HTTP path that answers when the job is healthy; empty means no probes.
	HealthCheck string
	// StartupTimeout is how long the container may take until HealthCheck answers the first time.
	StartupTimeout time.Duration
	// Autoscaling lets Kubernetes choose the replicas; nil keeps to Replicas.
	Autoscaling *Autoscaling
}

// Autoscaling bounds the replicas that Kubernetes chooses, and says by what. At least one of CPU and GPU is set.
type Autoscaling struct {
	Min, Max int32
	// CPU is the percentage of the asked CPU that replicas shall use on average.
	CPU *int32
	// GPU is the percentage of the time that GPUs of replicas shall be busy on average.
	GPU *int32
}
