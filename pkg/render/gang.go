package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// MasterPort is the port on which the first member of a gang listens for the others: PyTorch's default.
const MasterPort = 29500

// makeGang turns the Job of one pod into that of a gang: an indexed pod on each node, all in one PodGroup, with the host names
// <job>-<index>.<service>.
//
// Kubernetes restarts a failed member alone. The others notice that it is gone, fail in turn and are restarted as well, so that a failure of the gang
// costs each member one of its retries. A member without retries left ends the whole Job. A member that fails after others have succeeded is
// restarted alone: it either no longer needs them, or gives up waiting for them, until it has no retries left.
func (r *renderer) makeGang(spec *batchv1.JobSpec) {
	members := r.job.Resources.Nodes
	spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	spec.Completions, spec.Parallelism = ptr.To(members), ptr.To(members)
	spec.BackoffLimit, spec.BackoffLimitPerIndex = nil, ptr.To(r.job.Retries)
	spec.MaxFailedIndexes = ptr.To[int32](0)
	gang.SetGroup(spec.Template.Labels, r.job.Name)
	pod := &spec.Template.Spec
	pod.Subdomain = ServiceName(r.job.Name)
	if r.job.Environment.Distributed == workload.DistributedAuto {
		main := &pod.Containers[0]
		main.Env = append(r.gangVariables(main.Env), main.Env...)
	}
}

// podGroup says how many members must be placed before any starts. It uses no Go type: that of scheduler-plugins would tie gpuctl to that scheduler.
func (r *renderer) podGroup() *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"minMember": int64(r.job.Resources.Nodes)},
	}}
	out.SetAPIVersion(names.PodGroupAPIVersion)
	out.SetKind(names.PodGroupKind)
	meta := r.objectMeta(r.job.Name)
	out.SetName(meta.Name)
	out.SetNamespace(meta.Namespace)
	out.SetLabels(meta.Labels)
	out.SetAnnotations(r.topologyAnnotations(meta.Annotations))
	return out
}

// topologyAnnotations adds the requested topology to the annotations of a PodGroup.
func (r *renderer) topologyAnnotations(annotations map[string]string) map[string]string {
	wanted := r.job.Resources.Topology
	if wanted == nil {
		return annotations
	}
	annotations = maps.Clone(annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	text := string(wanted.Mode) + "=" + wanted.Level
	if wanted.Segment > 0 {
		text += names.TopologySegment + strconv.Itoa(int(wanted.Segment))
	}
	if wanted.Wait != nil {
		text += names.TopologyWait + wanted.Wait.String()
	}
	annotations[names.AnnotationTopology] = text
	return annotations
}

// headlessService gives each member a DNS name even before it is ready: members wait for each other to become ready.
func (r *renderer) headlessService() *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: r.objectMeta(ServiceName(r.job.Name)),
		Spec: corev1.ServiceSpec{
			ClusterIP:                corev1.ClusterIPNone,
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{names.LabelJob: r.job.Name, names.LabelJobType: string(r.job.Kind)},
			Ports:                    []corev1.ServicePort{{Name: "master", Port: MasterPort, TargetPort: intstr.FromInt32(MasterPort)}},
		},
	}
}

// hostName returns the DNS name, within the namespace, of the member with an index.
func (r *renderer) hostName(index int32) string {
	return fmt.Sprintf("%s-%d.%s", r.job.Name, index, ServiceName(r.job.Name))
}

// gangVariables returns the variables by which launchers find the other members, except those that the author has set. NODE_RANK and RANK are the
// member's index. docs/yaml.md says which launcher reads which.
func (r *renderer) gangVariables(set []corev1.EnvVar) []corev1.EnvVar {
	members := r.job.Resources.Nodes
	processes := max(r.job.Resources.GPU, 1) // per node
	each, port := strconv.FormatInt(processes, 10), strconv.Itoa(MasterPort)
	nodes, all := strconv.Itoa(int(members)), strconv.FormatInt(int64(members)*processes, 10)
	index := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
		FieldPath: "metadata.annotations['" + batchv1.JobCompletionIndexAnnotation + "']",
	}}
	out := []corev1.EnvVar{
		{Name: "MASTER_ADDR", Value: r.hostName(0)},
		{Name: "MASTER_PORT", Value: port},
		{Name: "NNODES", Value: nodes},
		{Name: "NODE_RANK", ValueFrom: index},
		{Name: "NPROC_PER_NODE", Value: each},
		{Name: "WORLD_SIZE", Value: all},
		{Name: "RANK", ValueFrom: index},
		{Name: "LOCAL_WORLD_SIZE", Value: each},
		{Name: "PET_MASTER_ADDR", Value: r.hostName(0)},
		{Name: "PET_MASTER_PORT", Value: port},
		{Name: "PET_NNODES", Value: nodes},
		{Name: "PET_NODE_RANK", ValueFrom: index},
		{Name: "PET_NPROC_PER_NODE", Value: each},
		{Name: "MPI_HOSTS", Value: r.mpiHosts(processes)},
	}
	return slices.DeleteFunc(out, func(v corev1.EnvVar) bool {
		return slices.ContainsFunc(set, func(own corev1.EnvVar) bool { return own.Name == v.Name })
	})
}

// mpiHosts lists the members with the number of processes for each, as mpirun --host reads it.
func (r *renderer) mpiHosts(slots int64) string {
	hosts := make([]string, r.job.Resources.Nodes)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("%s:%d", r.hostName(int32(i)), slots)
	}
	return strings.Join(hosts, ",")
}
