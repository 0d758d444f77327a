package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	polling "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bench/load"
)

// rayClusters are the objects of recognized gangs. Their operator does not run: what is measured is the scheduler.
var rayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}

// RecognizedBacklog measures how a scheduler works off gangs that name no PodGroup: each is a RayCluster of a head and workers.
func (l *Lab) RecognizedBacklog(ctx context.Context, s Scheduler, gangs Gangs) (result Result, err error) {
	if err := l.installRayClusters(ctx); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, l.deleteAll(ctx, rayClusters)) }()
	return l.backlog(ctx, s, gangs.pods(), func(ctx context.Context) error { return l.createRayClusters(ctx, gangs) })
}

// installRayClusters has the API server know the kind, with any fields.
func (l *Lab) installRayClusters(ctx context.Context) error {
	untyped, err := l.untyped()
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": rayClusters.GroupResource().String()},
		"spec": map[string]any{
			"group": rayClusters.Group, "scope": "Namespaced", "names": map[string]any{"kind": "RayCluster", "plural": rayClusters.Resource},
			"versions": []any{map[string]any{"name": rayClusters.Version, "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}}
	kinds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := untyped.Resource(kinds).Create(ctx, definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("installing RayClusters: %w", err)
	}
	return polling.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := untyped.Resource(rayClusters).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		return err == nil, nil
	})
}

// createRayClusters creates RayClusters, and the pods that their operator would make.
func (l *Lab) createRayClusters(ctx context.Context, gangs Gangs) error {
	untyped, err := l.untyped()
	if err != nil {
		return err
	}
	uids := make([]types.UID, gangs.Count)
	err = each(ctx, gangs.Count, func(ctx context.Context, i int) error {
		template := map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "resources": map[string]any{"limits": map[string]any{names.ResourceGPU: fmt.Sprint(load.GPUsPerNode)}}}}}}
		made, err := untyped.Resource(rayClusters).Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": rayClusters.GroupVersion().String(), "kind": "RayCluster", "metadata": map[string]any{"name": gangName(i)},
			"spec": map[string]any{"headGroupSpec": map[string]any{"template": template}, "workerGroupSpecs": []any{
				map[string]any{"replicas": int64(gangs.Members - 1), "template": template}}},
		}}, metav1.CreateOptions{})
		if err == nil {
			uids[i] = made.GetUID()
		}
		return err
	})
	if err != nil {
		return err
	}
	return each(ctx, gangs.pods(), func(ctx context.Context, i int) error {
		of, pod := i/gangs.Members, l.fleet.Pod(i/gangs.Members, load.GPUsPerNode)
		pod.Name, pod.Labels["ray.io/cluster"], pod.Labels["ray.io/node-type"] = fmt.Sprintf("ray-%06d", i), gangName(of), "worker"
		if i%gangs.Members == 0 {
			pod.Labels["ray.io/node-type"] = "head"
		}
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: rayClusters.GroupVersion().String(), Kind: "RayCluster", Name: gangName(of), UID: uids[of], Controller: ptr.To(true),
		}}
		_, err := l.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}
