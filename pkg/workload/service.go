package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Service is how a long-running job is reached, and how many replicas run.
type Service struct {
	Replicas int32
	// Port is the port of the Service; 0 if the job has no Service.
	Port int32
	// TargetPort is the port on which the container listens.
	TargetPort int32
	// Protocol is the protocol of the port; empty is TCP.
	Protocol corev1.Protocol
	Type     corev1.ServiceType
	// HealthCheck is the HTTP path of the health check; empty means no probes.
	HealthCheck string
	// StartupTimeout is how long the container may take until HealthCheck first succeeds.
	StartupTimeout time.Duration
	// Autoscaling lets Kubernetes choose the number of replicas; nil uses Replicas.
	Autoscaling *Autoscaling
}

// Autoscaling bounds the replicas that Kubernetes chooses, and names the metrics. At least one of CPU and GPU is set.
type Autoscaling struct {
	Min, Max int32
	// CPU is the target percentage of the requested CPU, averaged over the replicas.
	CPU *int32
	// GPU is the target percentage of time that the GPUs are busy, averaged over the replicas.
	GPU *int32
}
