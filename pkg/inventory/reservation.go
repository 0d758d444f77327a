package inventory

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Reservation is a GPUReservation, and the pods in its way. JSON keys are a contract.
type Reservation struct {
	Name  string                 `json:"name"`
	Phase names.ReservationPhase `json:"phase" enum:"Upcoming,Active,Over"`
	// Pool is the pool of which all nodes are reserved, "" if Nodes names them.
	Pool  string    `json:"pool,omitempty"`
	Nodes []string  `json:"nodes,omitempty"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	// Namespaces are those whose pods may run there. An empty list is a maintenance window.
	Namespaces []string `json:"namespaces,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Evict      bool     `json:"evict,omitempty"`
	// InTheWay is the number of pods on its nodes that may not run there during the reservation, and could; nil if unknown.
	InTheWay *int `json:"inTheWay,omitempty"`
	// Pods are those pods, for users who may see the pods of all namespaces.
	Pods    []PodInTheWay `json:"pods,omitempty"`
	Created time.Time     `json:"created"`
}

// PodInTheWay is a pod that could be on a node when it is kept from it. JSON keys are a contract.
type PodInTheWay struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Job       string `json:"job,omitempty"`
	Node      string `json:"node"`
	// Gone is the latest time at which it ends; nil without a limit.
	Gone *time.Time `json:"gone,omitempty"`
}

// NoReservationsError reports that a cluster has no GPUReservations.
type NoReservationsError struct{}

func (e *NoReservationsError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (*NoReservationsError) Message() phrase.Text {
	return phrase.Textf("this cluster knows no GPUReservations: have the administrators apply manifests/crds")
}

// Reservations reads all reservations in the order of their start, and the pods in their way, as far as the user may see them, with four requests. It
// returns a [NoReservationsError] if the cluster has no such resource.
func (r *Reader) Reservations(ctx context.Context, now time.Time) ([]Reservation, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.GPUReservations(), snapshot.Clock(now),
		snapshot.Nodes(snapshot.Scope{Cached: true}).IfAllowed(), snapshot.Pods(snapshot.Scope{Fields: snapshot.PlacedPods, Cached: true}).IfAllowed())
	if apierrors.IsNotFound(err) {
		return nil, &NoReservationsError{}
	}
	if err != nil {
		return nil, err
	}
	return BuildReservations(read), nil
}

// BuildReservations returns the reservations of a snapshot, in the order of their start.
func BuildReservations(s *snapshot.Snapshot) []Reservation {
	on := map[string][]*corev1.Pod{}
	for i := range s.Pods {
		on[s.Pods[i].Spec.NodeName] = append(on[s.Pods[i].Spec.NodeName], &s.Pods[i])
	}
	seen := s.HasPart(snapshot.PartNodes) && s.HasPart(snapshot.PartPods)
	out := make([]Reservation, 0, len(s.GPUReservations))
	for i := range s.GPUReservations {
		object := &s.GPUReservations[i]
		window := reservation.WindowOf(object)
		one := Reservation{
			Name: window.Name, Phase: window.PhaseAt(s.Now), Pool: window.Pool, Nodes: window.Nodes, From: window.From.UTC(), To: window.To.UTC(),
			Namespaces: window.Namespaces, Reason: window.Reason, Evict: object.Spec.Evict, Created: object.CreationTimestamp.UTC(),
		}
		switch {
		case seen:
			one.Pods = podsInTheWay(&window, s, on)
			count := len(one.Pods)
			one.InTheWay = &count
		case object.Status.ObservedGeneration == object.Generation && object.Status.Phase == one.Phase: // as gpu-controller saw it
			count := int(object.Status.InTheWay)
			one.InTheWay = &count
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Reservation) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name)) })
	return out
}

func podsInTheWay(window *reservation.Window, s *snapshot.Snapshot, on map[string][]*corev1.Pod) []PodInTheWay {
	out := []PodInTheWay{}
	for i := range s.Nodes {
		node := &s.Nodes[i]
		if !window.KeepsNode(node) {
			continue
		}
		for _, pod := range on[node.Name] {
			if !window.InTheWay(pod, s.Now) {
				continue
			}
			one := PodInTheWay{Namespace: pod.Namespace, Name: pod.Name, Job: gang.WorkloadOf(pod).JobName(), Node: node.Name}
			if gone, limited := reservation.GoneBy(pod, s.Now); limited {
				gone = gone.UTC()
				one.Gone = &gone
			}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b PodInTheWay) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}
