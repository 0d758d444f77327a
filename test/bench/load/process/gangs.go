package process

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bench/load"
)

// Gangs are jobs on several nodes.
type Gangs struct {
	// Count is how many there are, of Members pods each, which ask for all GPUs of a node each.
	Count, Members int
}

func (g Gangs) pods() int { return g.Count * g.Members }

// GangBacklog measures how a scheduler works off gangs that wait when it starts.
func (l *Lab) GangBacklog(ctx context.Context, s Scheduler, gangs Gangs) (result Result, err error) {
	defer func() { err = errors.Join(err, l.deleteAll(ctx, podGroups)) }()
	return l.backlog(ctx, s, gangs.pods(), func(ctx context.Context) error { return l.createGangs(ctx, gangs) })
}

// SingleBacklog measures the same of as many pods of the same size, each of which may run without the others.
func (l *Lab) SingleBacklog(ctx context.Context, s Scheduler, gangs Gangs) (Result, error) {
	return l.backlog(ctx, s, gangs.pods(), func(ctx context.Context) error { return l.createPods(ctx, gangs.pods(), load.GPUsPerNode) })
}

var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// untyped is a client for kinds of a CRD.
func (l *Lab) untyped() (dynamic.Interface, error) {
	config := rest.CopyConfig(l.config)
	config.ContentType = "" // of a CRD there is JSON alone
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return untyped, nil
}

// deleteAll takes all objects of a kind away.
func (l *Lab) deleteAll(ctx context.Context, kind schema.GroupVersionResource) error {
	untyped, err := l.untyped()
	if err != nil {
		return err
	}
	return untyped.Resource(kind).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
}

// createGangs creates gangs whose pods wait.
func (l *Lab) createGangs(ctx context.Context, gangs Gangs) error {
	untyped, err := l.untyped()
	if err != nil {
		return err
	}
	groups := untyped.Resource(podGroups).Namespace(namespace)
	err = each(ctx, gangs.Count, func(ctx context.Context, i int) error {
		group := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": podGroups.Group + "/" + podGroups.Version, "kind": "PodGroup",
			"metadata": map[string]any{"name": gangName(i)}, "spec": map[string]any{"minMember": int64(gangs.Members)},
		}}
		_, err := groups.Create(ctx, group, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return each(ctx, gangs.pods(), func(ctx context.Context, i int) error {
		pod := l.fleet.Pod(i/gangs.Members, load.GPUsPerNode)
		pod.Name = fmt.Sprintf("gang-%06d", i)
		pod.Labels[names.LabelPodGroup] = gangName(i / gangs.Members)
		_, err := l.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func gangName(i int) string { return fmt.Sprintf("g-%04d", i) }
