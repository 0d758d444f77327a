package sandbox

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
)

const (
	createWorkers = 32
	usablePoll    = 100 * time.Millisecond
	usableTimeout = 3 * time.Minute
)

// Nodes returns the fleet's nodes, ready at now, as kubelets would register them. kubeletPort is where logs are
// asked for, 0 for nowhere. The fleet must be valid and defaulted, as [ParseFleet] returns it.
func (f Fleet) Nodes(now time.Time, kubeletPort int) []*corev1.Node {
	var nodes []*corev1.Node
	for _, group := range f.Groups {
		width := max(2, len(strconv.Itoa(group.Count)))
		for i := range group.Count {
			name := fmt.Sprintf("%s-%0*d", group.NamePrefix, width, i+1)
			nodes = append(nodes, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{
					Name: name, Labels: group.nodeLabels(name, f.Region, i),
					Annotations: map[string]string{annotationSimulated: annotationSimulatedValue},
				},
				Spec:   corev1.NodeSpec{Taints: group.Taints},
				Status: group.nodeStatus(name, now, kubeletPort),
			})
		}
	}
	return nodes
}

// nodeLabels returns the labels of the group's i-th node.
func (g NodeGroup) nodeLabels(name, region string, i int) map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:       name,
		corev1.LabelOSStable:       "linux",
		corev1.LabelArchStable:     "amd64",
		corev1.LabelTopologyRegion: region,
		corev1.LabelTopologyZone:   g.Zone,
	}
	if g.Pool != "" {
		labels[g8s.LabelPool] = g.Pool
	}
	if g.NodesPerRack > 0 {
		labels[g8s.LabelRack] = fmt.Sprintf("%s-r%d", g.NamePrefix, i/g.NodesPerRack+1)
	}
	if g.GPUsPerNode > 0 {
		count := strconv.Itoa(g.GPUsPerNode)
		labels[g8s.LabelGPUType] = g.GPUType
		labels[g8s.LabelInterconnect] = g.Interconnect
		labels[g8s.LabelMemory] = g.GPUMemory.String()
		labels[g8s.LabelCount] = count
		labels[g8s.LabelNVIDIACount] = count
		labels[g8s.LabelNVIDIAMemory] = strconv.FormatInt(g.GPUMemory.Value()>>20, 10)
	}
	maps.Copy(labels, g.Labels)
	return labels
}

func (g NodeGroup) nodeStatus(name string, now time.Time, kubeletPort int) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              g.CPU,
		corev1.ResourceMemory:           g.Memory,
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             *resource.NewQuantity(int64(g.Pods), resource.DecimalSI),
	}
	if g.GPUsPerNode > 0 {
		resources[g8s.ResourceGPU] = *resource.NewQuantity(int64(g.GPUsPerNode), resource.DecimalSI)
	}
	status := corev1.NodeStatus{
		Capacity:    resources,
		Allocatable: resources.DeepCopy(),
		Conditions:  nodeConditions(now),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
			{Type: corev1.NodeHostName, Address: name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated",
			KubeletVersion: "kwok", ContainerRuntimeVersion: "kwok",
		},
	}
	status.DaemonEndpoints.KubeletEndpoint.Port = int32(kubeletPort)
	return status
}

func nodeConditions(now time.Time) []corev1.NodeCondition {
	at := metav1.NewTime(now)
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: at, LastTransitionTime: at}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
	}
}

// CreateFleet creates the nodes of a fleet, many at a time, and waits until pods can be placed on all of them:
// ready, and without the taint that admission puts on new nodes.
func (s *Sandbox) CreateFleet(ctx context.Context, fleet Fleet) error {
	fleet = fleet.withDefaults()
	if err := fleet.validate().ToAggregate(); err != nil {
		return fmt.Errorf("creating the fleet: %w", err)
	}
	client, err := s.newClient()
	if err != nil {
		return fmt.Errorf("creating the fleet: %w", err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(createWorkers)
	names := map[string]bool{}
	for _, node := range fleet.Nodes(time.Now(), s.nodePort()) {
		names[node.Name] = true
		g.Go(func() error {
			_, err := client.CoreV1().Nodes().Create(gctx, node, metav1.CreateOptions{})
			return err // names the node
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("creating the fleet: %w", err)
	}
	if err := s.waitUsable(ctx, names); err != nil {
		return fmt.Errorf("creating the fleet: %w", err)
	}
	s.ReportProgress("%d nodes are ready", len(names))
	return nil
}

// nodePort is the port of kwok's kubelet server, 0 if kwok does not run.
func (s *Sandbox) nodePort() int {
	if s.options.Kwok {
		return s.kubeletPort
	}
	return 0
}

// waitUsable waits until pods can be placed on all the nodes named.
func (s *Sandbox) waitUsable(ctx context.Context, names map[string]bool) error {
	client, err := s.newClient()
	if err != nil {
		return err
	}
	usable := 0
	err = wait.PollUntilContextTimeout(ctx, usablePoll, usableTimeout, true, func(ctx context.Context) (bool, error) {
		// From the API server's cache, which is sufficient for a poll and cheap with many nodes.
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		usable = 0
		for i := range list.Items {
			if names[list.Items[i].Name] && isUsable(&list.Items[i]) {
				usable++
			}
		}
		return usable == len(names), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %d nodes, of which %d are ready: %w", len(names), usable, err)
	}
	return nil
}

// isUsable reports whether a node is ready and not tainted as unready.
func isUsable(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	return condition.IsNodeTrue(node, corev1.NodeReady)
}
