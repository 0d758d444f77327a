package coscheduling

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
	"k8s.io/klog/v2"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/optional"
)

// workload is an object whose pods are recognized. Only the number of pods that start together is kept.
type workload struct {
	metav1.ObjectMeta
	kind  string
	sizes pkggang.Sizes
	// groups are the groups that were looked up, by part: an object has as many as it has replicas.
	mu     sync.Mutex
	groups map[string]*podGroup
}

// GetObjectKind implements runtime.Object.
func (*workload) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. Workloads in the informer are never changed.
func (w *workload) DeepCopyObject() runtime.Object { return w }

// groupFor returns the group of a part, or of all pods for "", nil if these start one by one.
func (w *workload) groupFor(part string) *podGroup {
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
	made := &podGroup{ObjectMeta: w.ObjectMeta, minMember: size, severalOwners: true}
	if made.Name = of.PartName(); part == "" {
		made.Name = of.GroupName()
	}
	made.layout, made.problem = readLayout(w.sizes.Topology)
	if size > placement.MaxMembers {
		made.problem = fmt.Sprintf("it asks for %d pods, want at most %d", size, placement.MaxMembers)
	}
	if w.groups == nil {
		w.groups = map[string]*podGroup{}
	}
	w.groups[part] = made
	return made
}

// knownGroups returns the groups that were looked up.
func (w *workload) knownGroups() []*podGroup {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*podGroup, 0, len(w.groups))
	for _, group := range w.groups {
		out = append(out, group)
	}
	return out
}

// workloads are the objects of one kind.
type workloads struct {
	informer cache.SharedIndexInformer
	// served reports whether the cluster has the kind, and the scheduler may read it.
	served func() bool
}

func (w workloads) getWorkload(name types.NamespacedName) *workload {
	object, found, err := w.informer.GetIndexer().GetByKey(name.String())
	if of, ok := object.(*workload); ok && found && err == nil {
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
func newWorkloads(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (map[string][]workloads, error) {
	out := map[string][]workloads{}
	for i, kind := range pkggang.Kinds() {
		source := &optional.Kind{Resource: kind.Resource, Consequence: "pods of theirs are placed one by one", Rare: true, Reduce: keepSizes(kind)}
		var failed error
		informer := factory.InformerFor(keysOfWorkloads[i], func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			source.Client, failed = client()
			return cache.NewSharedIndexInformer(source, &workload{}, 0, cache.Indexers{})
		})
		if failed != nil {
			return nil, fmt.Errorf("building the client of %s: %w", kind.Resource.Resource, failed)
		}
		out[kind.Name] = append(out[kind.Name], workloads{informer: informer, served: func() bool { return optional.IsServed(informer) }})
	}
	return out, nil
}

// keepSizes reduces an object to the number of pods that start together.
func keepSizes(kind pkggang.Kind) func(*unstructured.Unstructured) runtime.Object {
	return func(object *unstructured.Unstructured) runtime.Object {
		return &workload{ObjectMeta: metaOf(object), kind: kind.Name, sizes: kind.Read(object)}
	}
}

// groupOf returns the group of a recognized pod, and false for a pod that starts on its own. A pod whose object is not known yet counts as a
// member: pods and objects come from two watches.
func (g groups) groupOf(pod *corev1.Pod) (types.NamespacedName, bool) {
	if name, ok := pkggang.NamedGroup(pod); ok {
		return name, true
	}
	m, ok := pkggang.Recognize(pod)
	if !ok {
		return types.NamespacedName{}, false
	}
	isServed := false
	for _, of := range g.workloads[m.Kind] {
		known := of.getWorkload(types.NamespacedName{Namespace: pod.Namespace, Name: m.Object})
		switch {
		case known == nil:
			isServed = isServed || of.served()
		case m.Part != "" && known.sizes.SizeOf(m.Part) > 0:
			return types.NamespacedName{Namespace: pod.Namespace, Name: m.PartName()}, true
		default:
			return types.NamespacedName{Namespace: pod.Namespace, Name: m.GroupName()}, known.sizes.SizeOf("") > 0
		}
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: m.GroupName()}, isServed
}

// recognizedGroup returns the group with a name written by [gang.Membership], nil if there is none.
func (g groups) recognizedGroup(namespace string, m pkggang.Membership) *podGroup {
	for _, of := range g.workloads[m.Kind] {
		if known := of.getWorkload(types.NamespacedName{Namespace: namespace, Name: m.Object}); known != nil {
			return known.groupFor(m.Part)
		}
	}
	return nil
}

// watchWorkloads activates the members that waited for an object whose pods are recognized, or for its new content.
func (p *Plugin) watchWorkloads(of workloads) error {
	_, err := of.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { p.workloadChanged(nil, object) },
		UpdateFunc: func(old, object any) {
			before, _ := old.(*workload)
			p.workloadChanged(before, object)
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if gone, ok := object.(*workload); ok {
				for _, group := range gone.knownGroups() {
					p.groupGone(group)
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following the objects whose pods are recognized: %w", err)
	}
	return nil
}

// workloadChanged activates the members of an object's groups if the sizes of these have changed. The pods of an object that was not known
// before are indexed under the name of the group of all its pods, as [groups.groupOf] returns it until then.
func (p *Plugin) workloadChanged(before *workload, object any) {
	now, ok := object.(*workload)
	if !ok || before != nil && reflect.DeepEqual(before.sizes, now.sizes) {
		return
	}
	whole := pkggang.Membership{Kind: now.kind, Object: now.Name}
	name := types.NamespacedName{Namespace: now.Namespace, Name: whole.GroupName()}
	seen := map[types.NamespacedName]bool{}
	alone := map[string]*corev1.Pod{}
	for _, pod := range p.podsByIndex(byGroup, name.String()) {
		of, isMember := p.groups.groupOf(pod)
		switch {
		case !isMember:
			for _, former := range pkggang.NamesFor(pod) {
				p.allowWaiting(gang{group: former}, 0) // members in Permit no longer wait for others
			}
			if p.placeOf(pod) == placeNone && len(pod.Spec.SchedulingGates) == 0 {
				alone[nameOf(pod).String()] = pod
			}
		case isMember && !seen[of]:
			seen[of] = true
			if before == nil { // state recorded under the other name belongs to no group
				p.dropEmptyGang(gang{group: name})
			}
			p.groupChanged(nil, p.groups.getGroup(of))
		}
	}
	if len(alone) > 0 {
		p.handle.Activate(klog.Background(), alone)
	}
}
