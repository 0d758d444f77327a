package render

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// containerName is the name of a job's only container.
const containerName = "main"

func (r *renderer) podTemplate(app string, restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	labels := r.jobLabels()
	labels["app"] = app
	spec := corev1.PodSpec{
		RestartPolicy:     restart,
		SchedulerName:     names.SchedulerName,
		PriorityClassName: PriorityClass(r.job.Priority),
		NodeSelector:      r.nodeSelector(),
		Affinity:          r.poolAffinity(),
		Tolerations:       r.podTolerations(),
		Containers:        []corev1.Container{r.mainContainer()},
		Volumes:           podVolumes(r.mounts),
	}
	if r.hasWorkdir() {
		r.addUpload(&spec)
	}
	if secret := r.job.Environment.ImagePullSecret; secret != "" {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret}}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: r.podAnnotations()},
		Spec:       spec,
	}
}

// PriorityClass returns the priority class for a priority.
func PriorityClass(priority workload.Priority) string { return priorityClasses[priority] }

var priorityClasses = map[workload.Priority]string{
	workload.PriorityHigh:   names.PriorityClassHigh,
	workload.PriorityMedium: names.PriorityClassMedium,
	workload.PriorityLow:    names.PriorityClassLow,
}

// podAnnotations returns the description and the annotations that the scheduler reads; nil if there are none.
func (r *renderer) podAnnotations() map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, r.descriptionAnnotation())
	if types := r.job.Resources.GPUTypes; r.byLabels && len(types) > 0 {
		annotations[names.AnnotationGPUTypes] = strings.Join(types, ",")
	}
	if share := r.job.Resources.GPUShare; share != nil {
		annotations[names.AnnotationGPUShare] = share.String()
	}
	if long := r.job.Resources.MinRuntime; long != nil {
		annotations[names.AnnotationMinRuntime] = long.String()
	}
	if long := r.job.Resources.CheckpointGrace; long != nil {
		annotations[names.AnnotationCheckpointGrace] = long.String()
	}
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

// nodeSelector binds the pod to its pool and its GPU type. It has no entry for the default pool, whose nodes usually have no label, nor for types
// that the scheduler matches.
func (r *renderer) nodeSelector() map[string]string {
	selector := map[string]string{}
	if pool := r.job.Resources.Pool; pool != names.DefaultPool {
		selector[names.LabelPool] = pool
	}
	if types := r.job.Resources.GPUTypes; len(types) == 1 && !r.byLabels {
		selector[names.LabelGPUType] = types[0]
	}
	if len(selector) == 0 {
		return nil
	}
	return selector
}

// poolAffinity keeps jobs of the default pool off the nodes of all other pools.
func (r *renderer) poolAffinity() *corev1.Affinity {
	if r.job.Resources.Pool != names.DefaultPool {
		return nil
	}
	term := func(op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: names.LabelPool, Operator: op, Values: values},
		}}
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			term(corev1.NodeSelectorOpDoesNotExist), term(corev1.NodeSelectorOpIn, names.DefaultPool),
		}},
	}}
}

// podTolerations returns the job's tolerations, preceded by the one for the taint that keeps other pods off GPU nodes.
func (r *renderer) podTolerations() []corev1.Toleration {
	var out []corev1.Toleration
	if r.job.Resources.AsksGPUs() {
		out = append(out, corev1.Toleration{
			Key: names.ResourceGPU, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return append(out, r.job.Resources.Tolerations...)
}

func (r *renderer) mainContainer() corev1.Container {
	env := r.job.Environment
	c := corev1.Container{
		Name: containerName, Image: env.Image, ImagePullPolicy: env.ImagePullPolicy,
		Command: env.Command, Args: env.Args, Env: env.Env,
		Resources:    r.resourceRequirements(),
		VolumeMounts: volumeMounts(r.mounts),
		// Input that is sent to a program ends at some time; a user at a terminal may reconnect.
		Stdin: env.Stdin, StdinOnce: env.Stdin && !env.TTY, TTY: env.TTY,
	}
	if s := r.job.Service; s != nil && s.TargetPort != 0 {
		c.Ports = []corev1.ContainerPort{{ContainerPort: s.TargetPort, Protocol: s.Protocol}}
		setProbes(&c, s)
	}
	return c
}

// resourceRequirements requests exactly what the job may use: requests and limits are equal.
func (r *renderer) resourceRequirements() corev1.ResourceRequirements {
	list := corev1.ResourceList{}
	if cpu := r.job.Resources.CPU; cpu != nil {
		list[corev1.ResourceCPU] = *cpu
	}
	if memory := r.job.Resources.Memory; memory != nil {
		list[corev1.ResourceMemory] = *memory
	}
	if gpus := r.job.Resources.GPU; gpus > 0 {
		name := corev1.ResourceName(names.ResourceGPU)
		if r.sharesGPUs() {
			name = names.ResourceSharedGPU
		}
		list[name] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	for _, slices := range r.job.Resources.MIG {
		list[names.ResourceMIGPrefix+corev1.ResourceName(slices.Profile)] = *resource.NewQuantity(slices.Count, resource.DecimalSI)
	}
	return r.equalRequirements(list)
}

// equalRequirements requests the amounts, and zero of the GPUs that a container would get by default.
func (r *renderer) equalRequirements(list corev1.ResourceList) corev1.ResourceRequirements {
	for _, name := range r.defaulted {
		if _, asked := list[name]; !asked {
			list[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}
}

// sharesGPUs reports whether the job gets shared GPUs.
func (r *renderer) sharesGPUs() bool {
	return r.shared && r.job.Resources.GPUShare != nil
}

func (r *renderer) fieldWarnings() []Warning {
	var out []Warning
	if share := r.job.Resources.GPUShare; share != nil && !r.sharesGPUs() {
		message := phrase.Textf("pool %s does not share GPUs: the job gets %s, and the share of %s is only noted",
			r.job.Resources.Pool, wholeGPUs(r.job.Resources.GPU), share)
		if r.sharingUnknown {
			message = phrase.Textf("only the cluster knows whether pool %s shares its GPUs: this is for one that does not, where the job gets %s",
				r.job.Resources.Pool, wholeGPUs(r.job.Resources.GPU))
		}
		out = append(out, Warning{Field: "resources.gpu-share", Message: message})
	}
	return out
}

func wholeGPUs(n int64) phrase.Text {
	if n == 1 {
		return phrase.Textf("a whole GPU")
	}
	return phrase.Textf("%d whole GPUs", n)
}
