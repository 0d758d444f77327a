package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// ParseCluster reads nodes, and the pods on them, from YAML or JSON such as kubectl get nodes,pods -A -o yaml prints. Pods that have ended are
// omitted. Pods without a node are returned separately: they wait. PodGroups, GPUQuotas, PodDisruptionBudgets and PriorityClasses are kept, and
// members of gangs that other objects define, such as JobSets, name PodGroups then; the rest does not affect scheduling.
func ParseCluster(data []byte) (cluster Cluster, waiting []Arrival, err error) {
	objects, err := parseObjects(data)
	if err != nil {
		return Cluster{}, nil, err
	}
	recognized, err := newRecognizer(objects)
	if err != nil {
		return Cluster{}, nil, err
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Node:
			cluster.Nodes = append(cluster.Nodes, object)
		case *corev1.Pod:
			pod, err := recognized.labelPod(object)
			switch {
			case err != nil:
				return Cluster{}, nil, err
			case gpu.HasEnded(pod):
			case pod.Spec.NodeName == "":
				waiting = append(waiting, Arrival{Pod: pod})
			default:
				cluster.Pods = append(cluster.Pods, pod)
			}
		case *gangsv1.PodGroup:
			cluster.Groups = append(cluster.Groups, object)
		case *policyv1.PodDisruptionBudget:
			cluster.Budgets = append(cluster.Budgets, object)
		case *schedulingv1.PriorityClass:
			cluster.Classes = append(cluster.Classes, object)
		case *names.GPUQuota:
			cluster.Quotas = append(cluster.Quotas, object)
		}
	}
	cluster.Groups = append(cluster.Groups, recognized.sortedGroups()...)
	return cluster, waiting, nil
}

// ParseWorkload reads the workload: gpuctl's documents, or Pods, Jobs and Deployments of Kubernetes. Pods that already have a node are placed again.
// All arrive at once, in order.
func ParseWorkload(name string, data []byte, cluster Cluster) ([]Arrival, error) {
	objects, err := parseObjects(data)
	if errors.Is(err, errNotKubernetes) {
		objects, err = renderJobs(name, data, cluster)
	}
	if err != nil {
		return nil, err
	}
	return collectArrivals(objects, cluster)
}

// collectArrivals returns the pods that objects make.
func collectArrivals(objects []runtime.Object, cluster Cluster) ([]Arrival, error) {
	groups := map[types.NamespacedName]*gangsv1.PodGroup{}
	for _, object := range objects {
		if group, ok := object.(*gangsv1.PodGroup); ok {
			group.Namespace = cmp.Or(group.Namespace, corev1.NamespaceDefault)
			groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
		}
	}
	recognized, err := newRecognizer(objects)
	if err != nil {
		return nil, err
	}
	var arrivals []Arrival
	for _, object := range objects {
		for _, pod := range objectPods(object) {
			if pod, err = recognized.labelPod(pod); err != nil {
				return nil, err
			}
			if err := admitPod(pod, cluster.Classes); err != nil {
				return nil, err
			}
			arrivals = append(arrivals, Arrival{Pod: pod, Group: cmp.Or(groups[podGang(pod)], recognized.groups[podGang(pod)])})
		}
	}
	return arrivals, nil
}

// decoder knows Kubernetes' kinds, PodGroups and those of ours.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(errors.Join(clientscheme.AddToScheme(scheme), gangsv1.AddToScheme(scheme), names.AddToScheme(scheme)))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

var errNotKubernetes = errors.New("no apiVersion and kind: want Kubernetes objects")

// maxUnfolded is by how many bytes aliases may enlarge a file. Programs such as kubectl write none.
const maxUnfolded = 1 << 20

// parseObjects reads documents of YAML or JSON, and the items of lists in them.
func parseObjects(data []byte) ([]runtime.Object, error) {
	if !yaml.IsJSONBuffer(data) {
		if err := safeyaml.CheckAliases(data, safeyaml.Limits{Bytes: len(data) + maxUnfolded}); err != nil {
			return nil, fmt.Errorf("parsing: %w", err)
		}
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []runtime.Object
	for number := 1; ; number++ {
		var raw runtime.RawExtension
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("parsing document %d: %w", number, err)
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		object, err := decodeObject(raw.Raw)
		if err != nil {
			return nil, fmt.Errorf("parsing document %d: %w", number, err)
		}
		objects = append(objects, object...)
	}
}

func decodeObject(raw []byte) ([]runtime.Object, error) {
	object, _, err := decoder.Decode(raw, nil, nil)
	switch {
	case runtime.IsMissingVersion(err) || runtime.IsMissingKind(err):
		return nil, errNotKubernetes
	case runtime.IsNotRegisteredError(err):
		return decodeGangObject(raw)
	case err != nil:
		return nil, err
	case !meta.IsListType(object):
		return []runtime.Object{object}, nil
	}
	items, err := meta.ExtractList(object)
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	for i, item := range items {
		unknown, ok := item.(*runtime.Unknown)
		if !ok {
			objects = append(objects, item)
			continue
		}
		decoded, err := decodeObject(unknown.Raw)
		if err != nil {
			return nil, fmt.Errorf("parsing item %d: %w", i, err)
		}
		objects = append(objects, decoded...)
	}
	return objects, nil
}

// decodeGangObject decodes an object that defines a gang, and returns none for a kind that does not affect scheduling, such as any other custom resource.
func decodeGangObject(raw []byte) ([]runtime.Object, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil || !isGangKind(object.GroupVersionKind()) {
		return nil, nil //nolint:nilerr // what is not read is no gang
	}
	return []runtime.Object{object}, nil
}

// renderJobs reads gpuctl's documents.
func renderJobs(name string, data []byte, cluster Cluster) ([]runtime.Object, error) {
	documents, problems := workload.Parse(name, data)
	if problems.HasErrors() {
		return nil, errors.New(problems.String())
	}
	options := render.Options{SharedPools: map[string]bool{}}
	for _, node := range cluster.Nodes {
		if node.Labels[names.LabelSharing] == names.SharingMemory {
			options.SharedPools[gpu.PoolOf(node)] = true
		}
	}
	var objects []runtime.Object
	for _, document := range documents {
		rendered, _, err := render.Objects(document.WithoutUpload(), options)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", name, err)
		}
		for _, object := range rendered {
			typed, err := toTyped(object)
			if err != nil {
				return nil, fmt.Errorf("rendering %s: %w", name, err)
			}
			objects = append(objects, typed)
		}
	}
	return objects, nil
}

// toTyped adds the Go type to a PodGroup, which is rendered without it, and returns other objects unchanged.
func toTyped(object runtime.Object) (runtime.Object, error) {
	untyped, ok := object.(*unstructured.Unstructured)
	if !ok || untyped.GetKind() != names.PodGroupKind {
		return object, nil
	}
	group := &gangsv1.PodGroup{}
	return group, runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, group)
}

// objectPods returns the pods that an object makes, as they are before they have a node.
func objectPods(object runtime.Object) []*corev1.Pod {
	switch object := object.(type) {
	case *corev1.Pod:
		pod := object.DeepCopy()
		pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{}
		return withIdentity([]*corev1.Pod{pod})
	case *batchv1.Job:
		pods := podsFromTemplate(&object.Spec.Template, object.Namespace, object.Name, ptr.Deref(object.Spec.Parallelism, 1))
		return withIdentity(withIndexes(object, pods))
	case *appsv1.Deployment:
		return withIdentity(podsFromTemplate(&object.Spec.Template, object.Namespace, object.Name, ptr.Deref(object.Spec.Replicas, 1)))
	}
	return nil
}

// withIndexes has the pods of an indexed Job that gpuctl did not make as its controller makes them, by which they are recognized.
func withIndexes(job *batchv1.Job, pods []*corev1.Pod) []*corev1.Pod {
	if ptr.Deref(job.Spec.CompletionMode, "") != batchv1.IndexedCompletion || len(pods) == 0 || gang.IsMadeByGpuctl(pods[0]) {
		return pods
	}
	for i, pod := range pods {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(i)
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	}
	return pods
}

// podsFromTemplate makes pods of a template.
func podsFromTemplate(template *corev1.PodTemplateSpec, namespace, name string, count int32) []*corev1.Pod {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		pods[i].Namespace, pods[i].Name = namespace, fmt.Sprintf("%s-%d", name, i)
	}
	return pods
}

// withIdentity sets what the API server would: a namespace, and a UID, by which the scheduler identifies pods.
func withIdentity(pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		if pod.Namespace == "" {
			pod.Namespace = corev1.NamespaceDefault
		}
		if pod.UID == "" {
			pod.UID = types.UID(pod.Namespace + "/" + pod.Name)
		}
		delete(pod.Annotations, names.AnnotationGPUDevices) // GPUs that it had before
	}
	return pods
}
