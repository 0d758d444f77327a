package kubelet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"g8s.host/gpu-scheduler/pkg/agent/audit"
)

const (
	// listTimeout is how long kubelet may take to answer for all pods: 250 at the most, and more than that pace takes.
	listTimeout = 10 * time.Second
	// listPace is the time between requests. kubelet accepts 100 a second, in bursts of 10, from all clients together.
	listPace = 20 * time.Millisecond
)

// Lister asks kubelet's PodResources which container has which slots.
type Lister struct {
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
}

// NewLister returns a lister of a socket. It connects on first use, and again after kubelet restarted.
func NewLister(socket string) (*Lister, error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connecting to kubelet's PodResources: %w", err)
	}
	return &Lister{conn: conn, client: podresources.NewPodResourcesListerClient(conn)}, nil
}

// Close ends the connection.
func (l *Lister) Close() error { return l.conn.Close() }

// List returns the slots of some resources that some pods have, container by container. It omits plain init containers, and pods that kubelet does
// not know.
//
// It asks for each pod alone. When asked for all of them, kubelet recounts which slots are taken, forgets one that it is allocating at that moment,
// and may give it to another pod: kubernetes#137534.
func (l *Lister) List(ctx context.Context, pods []types.NamespacedName, resources []string) ([]audit.Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var out []audit.Listed
	for i, pod := range pods {
		if i > 0 {
			time.Sleep(listPace)
		}
		answer, err := l.client.Get(ctx, &podresources.GetPodResourcesRequest{PodNamespace: pod.Namespace, PodName: pod.Name})
		switch {
		case status.Code(err) == codes.Unknown: // kubelet says so of a pod that is gone, and of a question that it does not take
			continue
		case err != nil:
			return nil, fmt.Errorf("asking kubelet for the resources of pod %s: %w", pod, err)
		case answer.PodResources != nil:
			out = append(out, listedDevices(answer.PodResources, resources)...)
		}
	}
	return out, nil
}

// OfferedDevices returns the devices of a resource that kubelet offers to pods, of whatever plugin: the healthy ones of the list that it got last.
func (l *Lister) OfferedDevices(ctx context.Context, resource string) ([]string, error) {
	answer, err := l.client.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking kubelet which devices it offers: %w", err)
	}
	var ids []string
	for _, device := range answer.Devices {
		if device.ResourceName == resource {
			ids = append(ids, device.DeviceIds...)
		}
	}
	return ids, nil
}

func listedDevices(pod *podresources.PodResources, resources []string) []audit.Listed {
	var out []audit.Listed
	for _, container := range pod.Containers {
		// kubelet may list the slots of a resource in several pieces.
		slots := map[string][]string{}
		for _, device := range container.Devices {
			slots[device.ResourceName] = append(slots[device.ResourceName], device.DeviceIds...)
		}
		for _, resource := range resources {
			if ids := slots[resource]; len(ids) > 0 {
				slices.Sort(ids)
				out = append(out, audit.Listed{Namespace: pod.Namespace, Pod: pod.Name, Container: container.Name, Resource: resource, Slots: ids})
			}
		}
	}
	return out
}
