package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

func serviceFields(s *Service, kind Kind) fields {
	port := map[Kind]string{KindInference: "8000", KindNotebook: "8888", KindCompute: "none, and then no Service is made"}
	types := map[Kind]string{KindInference: "ClusterIP", KindNotebook: "NodePort", KindCompute: "NodePort"}
	scaled := []Kind{KindInference, KindCompute}
	replicas := "2"
	if kind == KindNotebook {
		replicas = "1"
	}
	var needsPort []string
	if kind == KindCompute { // the other kinds have a default port
		needsPort = []string{"port"}
	}
	return fields{
		{name: "replicas", value: wholeValue(&s.Replicas, "whole number", 0, maxReplicas), def: "1", example: replicas,
			doc: "How many copies run. A notebook always has one; with autoscaling it is left out."},
		{name: "port", value: wholeValue(&s.Port, "port number", 1, maxPort), def: port[kind], example: "8080",
			doc: "The port of the Service."},
		{name: "target-port", needs: needsPort, value: wholeValue(&s.TargetPort, "port number", 1, maxPort), def: "port", example: "9000",
			doc: "The port on which the container listens, where it is another one."},
		{name: "protocol", needs: needsPort, value: choiceValue(&s.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP), def: "TCP", example: "UDP",
			doc: "What is spoken on the port."},
		{name: "type", needs: needsPort, value: choiceValue(&s.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer),
			def: types[kind], example: "LoadBalancer",
			doc: "Who reaches the Service: ClusterIP only pods of the cluster, NodePort also every node's address, LoadBalancer the outside."},
		{name: "health-check", needs: needsPort, value: scalarValue(&s.HealthCheck, "path", absolutePath), def: "none", example: "/health",
			doc: "The HTTP path that answers 200 when the job is healthy. The job gets requests only while it answers, " +
				"and is started again when it stops answering."},
		{name: "startup-timeout", needs: []string{"health-check"}, value: scalarValue(&s.StartupTimeout, "duration", durationParser(10*time.Second)), def: "30m", example: "45m",
			doc: "How long loading the model may take until health-check answers the first time."},
		{name: "autoscaling", only: scaled, excludes: []string{"replicas"}, example: `{max: 8, gpu-utilization: 70}`, value: optionalSection(&s.Autoscaling, autoscalingFields), def: "none",
			doc: "Let Kubernetes choose the number of copies by how busy they are. Needs a metrics server in the cluster."},
	}
}

func autoscalingFields(a *Autoscaling) fields {
	a.Min = 1
	return fields{
		{name: "min", aliases: []string{"min-replicas"}, value: wholeValue(&a.Min, "whole number", 1, maxReplicas), def: "1", example: "2",
			doc: "The least number of copies."},
		{name: "max", aliases: []string{"max-replicas"}, required: true, value: wholeValue(&a.Max, "whole number", 1, maxReplicas), example: "8",
			doc: "The greatest number of copies."},
		{name: "cpu-utilization", aliases: []string{"target-cpu", "targetCPU"}, needs: []string{"resources.cpu"}, value: optionalWhole(&a.CPU, "percentage", 1, 100), def: "not looked at", example: "80",
			doc: "The percentage of cpu that the copies shall use on average. Needs resources.cpu."},
		{name: "gpu-utilization", aliases: []string{"target-gpu", "targetGPU"}, needs: []string{"resources.gpu"}, value: optionalWhole(&a.GPU, "percentage", 1, 100), def: "not looked at", example: "70",
			doc: "The percentage of the time that the GPUs of the copies shall be busy on average. Needs resources.gpu, and a " +
				"cluster that serves the metric; see docs/yaml.md."},
	}
}
