package follow

import (
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/optional"
)

// Workload is an object whose pods are recognized. Only the number of pods that start together is kept.
type Workload struct {
	metav1.ObjectMeta
	kind  string
	sizes pkggang.Sizes
	// groups are the groups that were looked up, by part: an object has as many as it has replicas.
	mu     sync.Mutex
	groups map[string]*podgroup.Group
}

// GetObjectKind implements runtime.Object.
func (*Workload) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Workloads in the informer are never changed.
func (w *Workload) DeepCopyObject() runtime.Object { return w }

// groupFor returns the group of a part, or of all pods for "", nil if these start one by one.
func (w *Workload) groupFor(part string) *podgroup.Group {
	size := w.sizes.SizeOf(part)
	if size == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.groups[part]; known != nil {
		return known
	}
	of := pkggang.Membership{Kind: w.kind, Object: w.Name, Part: part}
	made := &podgroup.Group{ObjectMeta: w.ObjectMeta, MinMember: size, SeveralOwners: true}
	if made.Name = of.PartName(); part == "" {
		made.Name = of.GroupName()
	}
	made.Layout, made.Problem = podgroup.ReadLayout(w.sizes.Topology)
	if size > placement.MaxMembers {
		made.Problem = fmt.Sprintf("it asks for %d pods, want at most %d", size, placement.MaxMembers)
	}
	if w.groups == nil {
		w.groups = map[string]*podgroup.Group{}
	}
	w.groups[part] = made
	return made
}

// HasSameSizes reports whether as many pods of another version of the object start together.
func (w *Workload) HasSameSizes(other *Workload) bool { return reflect.DeepEqual(w.sizes, other.sizes) }

// WholeGroup returns the name of the group of all pods of the object.
func (w *Workload) WholeGroup() types.NamespacedName {
	whole := pkggang.Membership{Kind: w.kind, Object: w.Name}
	return types.NamespacedName{Namespace: w.Namespace, Name: whole.GroupName()}
}

// KnownGroups returns the groups that were looked up.
func (w *Workload) KnownGroups() []*podgroup.Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*podgroup.Group, 0, len(w.groups))
	for _, group := range w.groups {
		out = append(out, group)
	}
	return out
}

// Workloads are the objects of one kind.
type Workloads struct {
	Informer cache.SharedIndexInformer
	// Served reports whether the cluster has the kind, and the scheduler may read it.
	Served func() bool
}

func (w Workloads) getWorkload(name types.NamespacedName) *Workload {
	object, found, err := w.Informer.GetIndexer().GetByKey(name.String())
	if of, ok := object.(*Workload); ok && found && err == nil {
		return of
	}
	return nil
}

// keyOfWorkloads is the type that distinguishes the informer of one kind in informers.SharedInformerFactory, which identifies informers by
// object type. K is a different type for each kind.
type keyOfWorkloads[K any] struct{ unstructured.Unstructured }

// keysOfWorkloads are the types for [gang.Kinds], in the same order.
var keysOfWorkloads = []runtime.Object{
	&keyOfWorkloads[[0]int]{}, &keyOfWorkloads[[1]int]{}, &keyOfWorkloads[[2]int]{}, &keyOfWorkloads[[3]int]{}, &keyOfWorkloads[[4]int]{},
	&keyOfWorkloads[[5]int]{}, &keyOfWorkloads[[6]int]{}, &keyOfWorkloads[[7]int]{}, &keyOfWorkloads[[8]int]{}, &keyOfWorkloads[[9]int]{},
	&keyOfWorkloads[[10]int]{}, &keyOfWorkloads[[11]int]{}, &keyOfWorkloads[[12]int]{},
}

// newWorkloads adds the objects whose pods are recognized to the scheduler's informers, by kind. They are read untyped: their operators may not
// be installed, and only some numbers of each object are kept.
func newWorkloads(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (map[string][]Workloads, error) {
	out := map[string][]Workloads{}
	for i, kind := range pkggang.Kinds() {
		source := &optional.Kind{Resource: kind.Resource, Consequence: "pods of theirs are placed one by one", Rare: true, Reduce: KeepSizes(kind)}
		var failed error
		informer := factory.InformerFor(keysOfWorkloads[i], func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			source.Client, failed = client()
			return cache.NewSharedIndexInformer(source, &Workload{}, 0, cache.Indexers{})
		})
		if failed != nil {
			return nil, fmt.Errorf("building the client of %s: %w", kind.Resource.Resource, failed)
		}
		out[kind.Name] = append(out[kind.Name], Workloads{Informer: informer, Served: func() bool { return optional.IsServed(informer) }})
	}
	return out, nil
}

// KeepSizes reduces an object to the number of pods that start together.
func KeepSizes(kind pkggang.Kind) func(*unstructured.Unstructured) runtime.Object {
	return func(object *unstructured.Unstructured) runtime.Object {
		return &Workload{ObjectMeta: podgroup.MetaOf(object), kind: kind.Name, sizes: kind.Read(object)}
	}
}

// GroupOf returns the group of a recognized pod, and false for a pod that starts on its own. A pod whose object is not known yet counts as a
// member: pods and objects come from two watches.
func (g Groups) GroupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if name, ok := pkggang.NamedGroup(pod); ok {
		return name, true
	}
	m, ok := pkggang.Recognize(pod)
	if !ok {
		return types.NamespacedName{}, false
	}
	isServed := false
	for _, of := range g.Workloads[m.Kind] {
		known := of.getWorkload(types.NamespacedName{Namespace: pod.Namespace, Name: m.Object})
		switch {
		case known == nil:
			isServed = isServed || of.Served()
		case m.Part != "" && known.sizes.SizeOf(m.Part) > 0:
			return types.NamespacedName{Namespace: pod.Namespace, Name: m.PartName()}, true
		default:
			return types.NamespacedName{Namespace: pod.Namespace, Name: m.GroupName()}, known.sizes.SizeOf("") > 0
		}
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: m.GroupName()}, isServed
}

// recognizedGroup returns the group with a name written by [gang.Membership], nil if there is none.
func (g Groups) recognizedGroup(namespace string, m pkggang.Membership) *podgroup.Group {
	for _, of := range g.Workloads[m.Kind] {
		if known := of.getWorkload(types.NamespacedName{Namespace: namespace, Name: m.Object}); known != nil {
			return known.groupFor(m.Part)
		}
	}
	return nil
}
