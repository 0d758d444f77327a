package follow

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
)

// FinishedMembers knows the gang members that have succeeded, which kube-scheduler's pod informer leaves out. A gang with a succeeded member was
// whole once. A member that failed and restarts after that cannot wait for a quorum: the siblings that have finished never come back. The rest
// of such a gang is placed pod by pod.
type FinishedMembers struct{ Members cache.Indexer }

// byController is the index of members by their controller and gang. The gang's name alone is not enough: a job of the same name may have been
// submitted since. Neither is the controller: an Argo workflow creates one gang after the other.
const byController = "controller"

// WatchFinished adds such members to the scheduler's informers, so that they are known before its first cycle.
func WatchFinished(factory informers.SharedInformerFactory) (FinishedMembers, error) {
	informer := factory.InformerFor(&keyOfFinished{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return coreinformers.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, cache.Indexers{byController: controllerKeys},
			func(options *metav1.ListOptions) {
				options.LabelSelector = pkggang.GroupSelector
				options.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodSucceeded)).String()
			})
	})
	if err := informer.SetTransform(keepOwners); err != nil {
		return FinishedMembers{}, fmt.Errorf("following the members that have finished: %w", err)
	}
	return FinishedMembers{Members: informer.GetIndexer()}, nil
}

// keyOfFinished is the type that distinguishes this pod informer from the scheduler's own in informers.SharedInformerFactory.
type keyOfFinished struct{ corev1.Pod }

// keepOwners reduces a pod to the fields that are used: many pods may have finished.
func keepOwners(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, OwnerReferences: pod.OwnerReferences,
		Labels: map[string]string{},
	}}
	if group, named := pkggang.NamedGroup(pod); named {
		pkggang.SetGroup(out.Labels, group.Name)
	}
	return out, nil
}

// controllerKeys is the function of the index byController.
func controllerKeys(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if key := controllerKey(pod); key != "" {
		return []string{key}, nil
	}
	return nil, nil
}

// controllerKey returns the key of a pod's controller and gang, "" for a pod without either.
func controllerKey(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if group, ok := pkggang.NamedGroup(pod); ok && owner != nil {
		return string(owner.UID) + "/" + group.String()
	}
	return ""
}

// HasFinishedSibling reports whether a sibling of a member has succeeded.
func (f FinishedMembers) HasFinishedSibling(pod *corev1.Pod) bool {
	key := controllerKey(pod)
	if key == "" || f.Members == nil {
		return false
	}
	siblings, err := f.Members.IndexKeys(byController, key)
	return err == nil && len(siblings) > 0
}
