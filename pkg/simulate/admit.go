package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"g8s.host/gpu-scheduler/manifests"
)

// shippedClasses are the priorities that gpuctl's jobs name, within the manifests.
const shippedClasses = "scheduler/priorityclasses.yaml"

// admitPod sets a pod's priority by its class, as the API server would: from the cluster's class, else from the shipped one.
func admitPod(pod *corev1.Pod, classes []*schedulingv1.PriorityClass) error {
	if pod.Spec.Priority != nil || pod.Spec.PriorityClassName == "" {
		return nil
	}
	shipped, err := readClasses()
	if err != nil {
		return err
	}
	all := slices.Concat(classes, shipped)
	at := slices.IndexFunc(all, func(class *schedulingv1.PriorityClass) bool { return class.Name == pod.Spec.PriorityClassName })
	if at < 0 {
		return fmt.Errorf("pod %s is of PriorityClass %s, which is not known: add it to the cluster, "+
			"kubectl get nodes,pods,priorityclasses -A -o yaml prints them", pod.Name, pod.Spec.PriorityClassName)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &all[at].Value, all[at].PreemptionPolicy
	return nil
}

func readClasses() ([]*schedulingv1.PriorityClass, error) {
	data, err := manifests.FS.ReadFile(shippedClasses)
	if err != nil {
		return nil, fmt.Errorf("reading the priorities: %w", err)
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var classes []*schedulingv1.PriorityClass
	for {
		class := &schedulingv1.PriorityClass{}
		if err := documents.Decode(class); errors.Is(err, io.EOF) {
			return classes, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the priorities: %w", err)
		}
		classes = append(classes, class)
	}
}
