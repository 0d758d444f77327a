// Package render turns gpuctl's documents into Kubernetes objects. It is pure: the same document and options always give the same objects, and
// nothing is read from a cluster.
//
// A training job becomes a Job with the job's name, on several nodes with a Service svc-<name> and a PodGroup. The others become a Deployment
// inference-<name>, notebook-<name> or compute-<name>, with a Service svc-<name>. Each object and each pod has the labels g8s.host/job, job-type,
// priority and pool, by which everything is looked up. The top object, which is the first of the list, also stores the submitted YAML in the
// annotation g8s.host/submitted ([names.AnnotationSubmitted]), so that it can be shown and exported again.
package render

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Options are the inputs of rendering besides the document.
type Options struct {
	// Namespace is the namespace of documents that name none. Empty omits it from the objects.
	Namespace string
	// SharedPools contains the pools whose nodes share GPUs by memory. There gpu-share requests shared GPUs; elsewhere it is only recorded on the pod
	// and the job gets whole GPUs.
	SharedPools map[string]bool
	// PoolsUnknown says that SharedPools was not read from a cluster.
	PoolsUnknown bool
	// AliasedTypes contains the GPU types of nodes that have only an alias of the label g8s.host/gpu-type, such as nvidia.com/gpu.product. A node
	// selector would miss such nodes, so a job that requests such a type leaves the label match to the scheduler.
	AliasedTypes map[string]bool
	// HostPaths are the host paths that jobs may mount, including everything below them. Nil allows every path, and an empty list none.
	HostPaths []string
	// DefaultedGPUs are the GPUs that LimitRanges give containers which do not name them, by namespace. A job requests 0 of those it does not want.
	// Without such a LimitRange it does not name them: ExtendedResourceToleration, an admission plugin of the API server, gives pods that name a
	// resource the toleration of its nodes, even for 0 of it.
	DefaultedGPUs map[string][]corev1.ResourceName
	// Now is the start of reservations that begin now.
	Now time.Time
}

// Warning tells the author of a document about the effect of a field.
type Warning struct {
	// Field is the path of the field, such as resources.gpu-share.
	Field   string
	Message phrase.Text
}

// String renders the warning as "field: message".
func (w Warning) String() string {
	return w.Field + ": " + w.Message.String()
}

// Objects renders a document. The first object is the top object of the job; the others belong to it. A pool becomes its GPUPool and its nodes, with
// the labels of its members: the nodes are only for printing, because members are patched and never created; see package pool. A quota becomes the
// result of [Quota], and a reservation that of [Reservation].
func Objects(doc workload.Document, opts Options) ([]client.Object, []Warning, error) {
	switch {
	case doc.Pool != nil:
		return poolObjects(doc.Pool)
	case doc.Quota != nil:
		return Quota(doc.Quota), nil, nil
	case doc.Reservation != nil:
		return []client.Object{Reservation(doc.Reservation, opts.Now)}, nil, nil
	case doc.Job == nil:
		return nil, nil, phrase.Errorf("rendering %s %q: the document has no content", doc.Kind, doc.Name)
	}
	if err := checkHostPaths(doc.Job, opts.HostPaths); err != nil {
		return nil, nil, err
	}
	if doc.Job.Workdir != "" && doc.Upload == nil {
		return nil, nil, &UnsentError{Folder: doc.Job.Workdir}
	}
	r := newRenderer(doc, opts)
	var objects []client.Object
	if doc.Kind.IsService() {
		objects = append(objects, r.newDeployment())
		if doc.Job.Service.Port != 0 {
			objects = append(objects, r.newService())
		}
		if doc.Job.Service.Autoscaling != nil {
			objects = append(objects, r.newAutoscaler())
		}
	} else {
		objects = append(objects, r.trainingJob())
		if r.job.IsGang() {
			objects = append(objects, r.headlessService(), r.podGroup())
		}
	}
	return slices.Concat(objects, r.newClaims(), r.uploadConfigMaps()), r.fieldWarnings(), nil
}

// renderer renders one job.
type renderer struct {
	job       *workload.Job
	namespace string
	source    string
	filled    string
	poolShare string
	// upload is the folder submitted with the job; nil for none.
	upload *workload.Upload
	// shared says whether the job's pool shares its GPUs, and unasked that this is unknown.
	shared, sharingUnknown bool
	// byLabels says whether the scheduler matches the GPU types against all labels that name one.
	byLabels bool
	mounts   []mount
	// defaulted are the GPUs that a container gets if it does not name them.
	defaulted []corev1.ResourceName
}

func newRenderer(doc workload.Document, opts Options) *renderer {
	asked := &doc.Job.Resources
	r := &renderer{
		job: doc.Job, source: doc.Source, filled: doc.Filled, poolShare: doc.PoolShare, namespace: doc.Job.Namespace, mounts: jobMounts(doc.Job),
		upload:         doc.Upload,
		shared:         opts.SharedPools[asked.Pool],
		sharingUnknown: opts.PoolsUnknown,
		byLabels:       asked.GPUTypesListed || len(asked.GPUTypes) == 1 && opts.AliasedTypes[asked.GPUTypes[0]],
	}
	if r.namespace == "" {
		r.namespace = opts.Namespace
	}
	r.defaulted = opts.DefaultedGPUs[r.namespace]
	return r
}

// TopName returns the name of the top object of a job.
func TopName(kind workload.Kind, job string) string {
	if kind == workload.KindTraining {
		return job
	}
	return string(kind) + "-" + job
}

// ServiceName returns the name of the Service of a job.
func ServiceName(job string) string {
	return "svc-" + job
}

// trainingApp is the label app of the pods of every training job; the label g8s.host/job identifies the job.
const trainingApp = "gpuctl-job"

// jobLabels identify the job on every object and pod.
func (r *renderer) jobLabels() map[string]string {
	return map[string]string{
		names.LabelJob:       r.job.Name,
		names.LabelJobType:   string(r.job.Kind),
		names.LabelPriority:  string(r.job.Priority),
		names.LabelPool:      r.job.Resources.Pool,
		names.LabelManagedBy: names.ManagedByGpuctl,
	}
}

// objectMeta returns the metadata of an object that belongs to the job.
func (r *renderer) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: r.namespace,
		Labels: r.jobLabels(), Annotations: r.descriptionAnnotation(),
	}
}

// topMeta returns the metadata of the top object.
func (r *renderer) topMeta() metav1.ObjectMeta {
	m := r.objectMeta(TopName(r.job.Kind, r.job.Name))
	note := func(key, value string) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[key] = value
	}
	if r.job.Queue != "" {
		m.Labels[names.LabelKueueQueue] = r.job.Queue
	}
	if timeout := r.job.Resources.IdleTimeout; timeout != nil {
		note(names.AnnotationIdleTimeout, timeout.String())
	}
	if preset := r.job.Resources.Preset; preset != "" {
		note(names.AnnotationPreset, preset)
		if r.filled != "" {
			note(names.AnnotationPresetFilled, r.filled)
		}
	}
	if r.poolShare != "" && r.job.Resources.GPUShare != nil {
		note(names.AnnotationPoolShare, r.poolShare)
	}
	if jobs := strings.Join(r.job.DependsOn, ","); jobs != "" {
		note(names.AnnotationDependsOn, string(cmp.Or(r.job.After, workload.AfterOK))+"="+jobs)
		note(names.AnnotationWaitsFor, jobs)
	}
	if r.hasWorkdir() {
		note(names.AnnotationUpload, r.upload.String())
	}
	if n := r.job.Notify; n != nil {
		note(names.AnnotationNotify, n.Channel)
		note(names.AnnotationNotifyOn, n.OnText())
	}
	if r.source != "" {
		note(names.AnnotationSubmitted, r.source)
	}
	return m
}

// descriptionAnnotation returns the description annotation of a job; nil without a description.
func (r *renderer) descriptionAnnotation() map[string]string {
	if r.job.Description == "" {
		return nil
	}
	return map[string]string{names.AnnotationDescription: r.job.Description}
}

func (r *renderer) trainingJob() *batchv1.Job {
	spec := batchv1.JobSpec{
		BackoffLimit:     ptr.To(r.job.Retries),
		PodFailurePolicy: ignoreDisruptions(),
		Template:         r.podTemplate(trainingApp, corev1.RestartPolicyNever),
	}
	switch {
	case r.job.IsGang():
		r.makeGang(&spec)
	case r.job.Array != nil:
		r.makeArray(&spec)
	}
	if len(r.job.DependsOn) > 0 { // without pods no time limit runs, and no quota is used
		spec.Suspend = ptr.To(true)
	}
	if ttl := r.job.TTL; ttl != nil {
		spec.TTLSecondsAfterFinished = ptr.To(int32(ttl.Seconds()))
	}
	r.limitTime(&spec)
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: r.topMeta(),
		Spec:       spec,
	}
}

// ignoreDisruptions keeps preemption, drains and lost nodes from using up the retries of a job: they are not failures of the job. Kubernetes requires
// podReplacementPolicy Failed with it, and sets that: the next pod is created when the previous one has ended, not when it starts to terminate. We
// would request that anyway, since two runs must not write to one folder.
//
// There is no rule for the exit codes of SIGTERM: the exit code does not tell who sent the signal.
func ignoreDisruptions() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action: batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		},
	}}}
}

func (r *renderer) newDeployment() *appsv1.Deployment {
	app := TopName(r.job.Kind, r.job.Name)
	spec := appsv1.DeploymentSpec{
		Replicas: r.replicaCount(),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		Template: r.podTemplate(app, corev1.RestartPolicyAlways),
	}
	if r.job.Kind == workload.KindNotebook {
		// Two notebooks must not write to one folder, and the new one needs the old one's GPUs.
		spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: r.topMeta(),
		Spec:       spec,
	}
}

// replicaCount returns nil if Kubernetes chooses the number of replicas.
func (r *renderer) replicaCount() *int32 {
	if r.job.Service.Autoscaling != nil {
		return nil
	}
	return ptr.To(r.job.Service.Replicas)
}

// nodes returns the members of a pool, with the labels that joining it sets.
