package agent

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Pods are the pods of the node from the API server. They are cached, so that a known pod starts while the API server does not answer. Only metadata
// is read: it is enough, and takes a tenth of the memory.
type Pods struct {
	informer cache.SharedIndexInformer

	mu      sync.Mutex
	known   map[types.UID]binding.Pod
	changed chan struct{}
}

// NewPods returns the pods of a node, none before Run.
func NewPods(client metadata.Interface, node string) (*Pods, error) {
	p := &Pods{known: map[types.UID]binding.Pod{}, changed: make(chan struct{})}
	ofNode := fields.OneTermEqualSelector("spec.nodeName", node).String()
	pods := client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	p.informer = cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = ofNode
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = ofNode
			return pods.Watch(ctx, options)
		},
	}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	if err := p.informer.SetTransform(trimPod); err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	_, err := p.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.setPod(object) },
		UpdateFunc: func(_, object any) { p.setPod(object) },
		DeleteFunc: func(object any) { p.deletePod(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	return p, nil
}

// trimPod keeps what is read of a pod.
func trimPod(object any) (any, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
	}}
	for _, name := range []string{names.AnnotationGPUDevices, names.AnnotationDecision, corev1.MirrorPodAnnotationKey} {
		if value, ok := pod.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	return kept, nil
}

// Run watches the pods until ctx ends.
func (p *Pods) Run(ctx context.Context) error {
	p.informer.RunWithContext(ctx)
	return nil
}

// KnownPods returns the pods, and a channel that is closed when they change.
func (p *Pods) KnownPods() (map[types.UID]binding.Pod, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.known), p.changed
}

func (p *Pods) setPod(object any) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, decided := pod.Annotations[names.AnnotationDecision]
	now := binding.Pod{
		Namespace: pod.Namespace, Name: pod.Name, Assignment: pod.Annotations[names.AnnotationGPUDevices], Decided: decided,
		Deleting: pod.DeletionTimestamp != nil,
	}
	p.setKnown(pod.UID, now)
	if uid := staticUID(pod); uid != "" && (p.known[uid] == binding.Pod{} || p.known[uid].Static) {
		p.setKnown(uid, binding.Pod{Namespace: pod.Namespace, Name: pod.Name, Static: true})
	}
}

// setKnown records a pod. The caller holds the lock.
func (p *Pods) setKnown(uid types.UID, now binding.Pod) {
	if p.known[uid] != now {
		p.known[uid] = now
		p.signalChange()
	}
}

// staticUID returns by which UID kubelet and the runtime know a static pod, of its mirror on the API server; "" for other pods. Whoever makes pods
// can pretend to be the mirror of any, so the pod that has the UID goes first.
func staticUID(mirror *metav1.PartialObjectMetadata) types.UID {
	return types.UID(mirror.Annotations[corev1.MirrorPodAnnotationKey])
}

func (p *Pods) deletePod(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, pod.UID)
	if uid := staticUID(pod); p.known[uid].Static {
		delete(p.known, uid)
	}
	p.signalChange()
}

// signalChange wakes the waiters. The caller holds the lock.
func (p *Pods) signalChange() {
	close(p.changed)
	p.changed = make(chan struct{})
}
