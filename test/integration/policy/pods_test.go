package policy

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// plain is a pod with one GPU that nobody minds.
func plain() *corev1.Pod {
	pod := fixture.Pod("").GPUs(1).Obj()
	pod.GenerateName = "pod-"
	return pod
}

func both(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, change := range changes {
			change(pod)
		}
	}
}

func privileged(pod *corev1.Pod) {
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
}

func modest(pod *corev1.Pod) {
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
		Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func capable(name corev1.Capability) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{name}},
		}
	}
}

func mounts(path string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprintf("v%d", len(pod.Spec.Volumes)), VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		})
	}
}

func env(name, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: name, Value: value})
	}
}

// mountsAt mounts an empty folder of the pod's own.
func mountsAt(path string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: path})
	}
}

// asksFor makes the only container ask for one resource.
func asksFor(name, amount string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		list := corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	}
}

func withoutGPUs(pod *corev1.Pod) { pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }

func onNode(pod *corev1.Pod) { pod.Spec.NodeName = "train-01" }

func priority(class string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class }
}

func scheduledBy(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.SchedulerName = name }
}

func ends(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
}

func tolerates(toleration corev1.Toleration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration) }
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations[key] = value }
}

// of puts a pod into a pool by its node selector.
func of(pool string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{names.LabelPool: pool} }
}

func labelled(pool string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[names.LabelPool] = pool }
}

func required(operator corev1.NodeSelectorOperator, pools ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: names.LabelPool, Operator: operator, Values: pools}},
			}}},
		}}
	}
}

func preferred(pool string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: names.LabelPool, Operator: corev1.NodeSelectorOpIn, Values: []string{pool}}},
			}}},
		}}
	}
}

// attack is a change of a plain pod, and what the refusal must say: what, and what to do. "" must pass.
type attack struct {
	change func(*corev1.Pod)
	want   string
	// podsAlone says that the templates of workloads are not held to it.
	podsAlone bool
}

var attacks = map[string]attack{
	"a plain pod":                            {change: func(*corev1.Pod) {}},
	"the root of the node":                   {change: mounts("/"), want: "may not mount / of the node: the ConfigMap kube-system/gpuctl-policy allows /datasets"},
	"a path that begins like an allowed one": {change: mounts("/datasets2"), want: "may not mount /datasets2"},
	"one bad path among good ones":           {change: both(mounts("/datasets"), mounts("/etc")), want: "may not mount /etc of"},
	"allowed paths of the node":              {change: both(mounts("/datasets"), mounts("/models/a/b"), mounts("/cache/"))},
	"a privileged container":                 {change: privileged, want: "privileged containers have the whole node"},
	"a privileged init container": {change: func(p *corev1.Pod) {
		privileged(p)
		p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, plain().Spec.Containers
		p.Spec.InitContainers[0].Name = "init"
	}, want: "(init): leave securityContext.privileged out"},
	"the processes of the node":                {change: func(p *corev1.Pod) { p.Spec.HostPID = true }, want: "(hostPID)"},
	"the network and the memory of the node":   {change: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostIPC = true, true }, want: "(hostIPC, hostNetwork)"},
	"the capability to do anything":            {change: capable("SYS_ADMIN"), want: "may not add capabilities"},
	"every capability":                         {change: capable("ALL"), want: "may not add capabilities"},
	"locked memory, for RDMA":                  {change: capable("IPC_LOCK")},
	"not privileged, and says so":              {change: modest},
	"the priority of what runs the nodes":      {change: priority("system-node-critical"), want: "priority class system-node-critical is for what runs the cluster"},
	"the priority of what runs the cluster":    {change: priority("system-cluster-critical"), want: "take g8s-high, g8s-medium or g8s-low"},
	"the highest priority of jobs":             {change: priority("g8s-high")},
	"a node, past the scheduler":               {change: onNode, want: "spec.nodeName puts the pod on train-01 past the scheduler"},
	"a node, past the scheduler, without GPUs": {change: both(onNode, withoutGPUs), want: "past the scheduler"},
	"a node, by the scheduler":                 {change: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": "train-01"} }},
	"all cards, by the environment":            {change: both(env("NVIDIA_VISIBLE_DEVICES", "all"), withoutGPUs), want: "the scheduler chooses the cards"},
	"another's card, by the environment":       {change: env("NVIDIA_VISIBLE_DEVICES", "GPU-1"), want: "the scheduler chooses the cards"},
	"the second of two entries of one name":    {change: both(env("NVIDIA_VISIBLE_DEVICES", "none"), env("NVIDIA_VISIBLE_DEVICES", "all")), want: "the scheduler chooses the cards"},
	"all cards, from a field": {change: func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	}, want: "the scheduler chooses the cards"},
	"all cards, by an annotation":               {change: both(annotated("nvidia.cdi.k8s.io/container.main", "nvidia.com/gpu=all"), withoutGPUs), want: "cdi.k8s.io/container.main would give"},
	"the switches between all cards":            {change: env("NVIDIA_NVSWITCH", "enabled"), want: "the scheduler chooses the cards"},
	"what all cards share, for storage":         {change: env("NVIDIA_GDS", "enabled"), want: "the scheduler chooses the cards"},
	"the network cards of the node":             {change: env("NVIDIA_MOFED", "enabled"), want: "the scheduler chooses the cards"},
	"the memory of cards, mapped":               {change: env("NVIDIA_GDRCOPY", "enabled"), want: "the scheduler chooses the cards"},
	"a device by another variable's value":      {change: both(env("A", "enabled"), env("NVIDIA_NVSWITCH", "$(A)")), want: "the scheduler chooses the cards"},
	"no switches":                               {change: env("NVIDIA_NVSWITCH", "disabled")},
	"memory of other nodes":                     {change: env("NVIDIA_IMEX_CHANNELS", "0"), want: "the scheduler chooses the cards"},
	"all cards, as an old image gets":           {change: both(env("CUDA_VERSION", "8.0"), withoutGPUs), want: "Set NVIDIA_VISIBLE_DEVICES=none beside it"},
	"an old image that says it wants none":      {change: both(env("CUDA_VERSION", "8.0"), env("NVIDIA_VISIBLE_DEVICES", "none"), withoutGPUs)},
	"an old image that asks for GPUs":           {change: env("CUDA_VERSION", "8.0")},
	"all cards, by what is mounted":             {change: both(mountsAt("/var/run/nvidia-container-devices/all"), withoutGPUs), want: "mounted under nvidia-container-devices"},
	"all cards, by what is mounted in disguise": {change: both(mountsAt("/var//run/./nvidia-container-devices/../nvidia-container-devices/all"), withoutGPUs), want: "mounted under"},
	"a card by CDI, by what is mounted":         {change: mountsAt("/var/run/nvidia-container-devices/cdi/nvidia.com/gpu/0"), want: "mounted under"},
	"all cards, by NRI":                         {change: annotated("devices.nri.io/container.main", "- path: /dev/nvidia0"), want: "devices.nri.io/container.main would give"},
	"all cards, by CRI-O":                       {change: annotated("io.kubernetes.cri-o.Devices", "/dev/nvidia0"), want: "cri-o.Devices would give"},
	"no cards, by the environment":              {change: both(env("NVIDIA_VISIBLE_DEVICES", "none"), withoutGPUs)},
	"an order of one's own cards":               {change: env("CUDA_VISIBLE_DEVICES", "0")},
	"what the driver offers":                    {change: env("NVIDIA_DRIVER_CAPABILITIES", "compute,video,utility")},
	"a library for NVIDIA's runtime":            {change: env("LD_PRELOAD", "/proc/self/cwd/poc.so"), want: "Set them in the command"},
	"a library for a program without GPUs":      {change: both(env("LD_PRELOAD", "/usr/lib/libjemalloc.so"), withoutGPUs)},
	"every taint":                               {change: tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists}), want: "tolerates every taint"},
	"the taint of a node that is being emptied": {change: tolerates(corev1.Toleration{Key: names.TaintMoving, Operator: corev1.TolerationOpExists}), want: "or g8s.host/moving,"},
	"the taint of a machine that is to go":      {change: tolerates(corev1.Toleration{Key: names.TaintLeaving, Operator: corev1.TolerationOpExists}), want: "g8s.host/leaving or"},
	"the taint of a machine that joins":         {change: tolerates(corev1.Toleration{Key: names.TaintJoining, Operator: corev1.TolerationOpExists}), want: "or g8s.host/joining"},
	"the taint of a node that failed":           {change: tolerates(corev1.Toleration{Key: names.TaintSuspect, Operator: corev1.TolerationOpExists}), want: "g8s.host/suspect,"},
	"the taint of a node that no pool takes":    {change: tolerates(corev1.Toleration{Key: names.TaintNotAdmitted, Operator: corev1.TolerationOpExists}), want: "g8s.host/not-admitted"},
	"the taint of GPU nodes":                    {change: tolerates(corev1.Toleration{Key: names.ResourceGPU, Operator: corev1.TolerationOpExists})},
	"a pool":                                    {change: of("training-pool")},
	"a pool for others":                         {change: of("gold-pool"), want: "pool gold-pool is not for namespace"},
	"a pool for others, by a label":             {change: labelled("gold-pool"), want: "pools.gold-pool of the ConfigMap kube-system/gpuctl-policy"},
	"a pool for others, by affinity":            {change: both(required(corev1.NodeSelectorOpIn, "training-pool", "gold-pool"), withoutGPUs), want: "pool gold-pool is not"},
	"a pool for others, by a wish":              {change: preferred("gold-pool"), want: "pool gold-pool is not"},
	"not the pool for others":                   {change: required(corev1.NodeSelectorOpNotIn, "gold-pool")},
	"another scheduler, where a pool is closed": {change: scheduledBy("default-scheduler"), want: "scheduler default-scheduler knows no pools"},
	"another scheduler and none of its GPUs":    {change: both(scheduledBy("default-scheduler"), asksFor(names.ResourceGPU, "0"))},
	"another scheduler, without GPUs":           {change: both(scheduledBy("default-scheduler"), withoutGPUs)},
	"a priority for others":                     {change: priority("reserved"), want: "priority class reserved is not for namespace"},
	"cards, by the scheduler's annotation":      {change: annotated(names.AnnotationGPUDevices, "{}"), want: "only the scheduler may set", podsAlone: true},
	"an epoch of the scheduler":                 {change: annotated(names.AnnotationEpoch, "a/1"), want: "only the scheduler may set", podsAlone: true},
	"that it is to leave for another":           {change: annotated(names.AnnotationPreemptionNotice, "{}"), want: "only the scheduler may set", podsAlone: true},
	"a decision of the scheduler":               {change: annotated(names.AnnotationDecision, "1/2"), want: "only the scheduler may set", podsAlone: true},
	"a year to end, for whoever preempts it":    {change: ends(365 * 24 * 3600), want: "31536000 keeps the GPUs from those for whom"},
	"an hour to end":                            {change: ends(3600)},
	"a year to end, of another scheduler":       {change: both(ends(365*24*3600), scheduledBy("default-scheduler"), withoutGPUs)},
	"a plan of the scheduler for a gang":        {change: annotated(names.AnnotationGangPlan, "a/2"), want: "only the scheduler may set", podsAlone: true},
}

// maker makes something of a pod in dry run.
type maker func(t *testing.T, who rest.ImpersonationConfig, namespace string, pod *corev1.Pod) error

func makePod(t *testing.T, who rest.ImpersonationConfig, namespace string, pod *corev1.Pod) error {
	_, err := as(who).CoreV1().Pods(namespace).Create(t.Context(), pod, dryRun)
	return err
}

func templateOf(pod *corev1.Pod) corev1.PodTemplateSpec {
	pod.Labels["app"] = "a"
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
}

func jobSpec(pod *corev1.Pod) batchv1.JobSpec {
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return batchv1.JobSpec{Template: templateOf(pod)}
}

var makers = map[string]maker{
	"Job": func(t *testing.T, who rest.ImpersonationConfig, namespace string, pod *corev1.Pod) error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{GenerateName: "job-"}, Spec: jobSpec(pod)}
		_, err := as(who).BatchV1().Jobs(namespace).Create(t.Context(), job, dryRun)
		return err
	},
	"CronJob": func(t *testing.T, _ rest.ImpersonationConfig, namespace string, pod *corev1.Pod) error {
		job := &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "cron-"},
			Spec:       batchv1.CronJobSpec{Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: jobSpec(pod)}},
		}
		_, err := admin.BatchV1().CronJobs(namespace).Create(t.Context(), job, dryRun) // no role of ours makes these
		return err
	},
	"Deployment": func(t *testing.T, who rest.ImpersonationConfig, namespace string, pod *corev1.Pod) error {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{GenerateName: "deployment-"}, Spec: appsv1.DeploymentSpec{
			Template: templateOf(pod), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		}}
		_, err := as(who).AppsV1().Deployments(namespace).Create(t.Context(), deployment, dryRun)
		return err
	},
	"StatefulSet": func(t *testing.T, _ rest.ImpersonationConfig, namespace string, pod *corev1.Pod) error {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{GenerateName: "set-"}, Spec: appsv1.StatefulSetSpec{
			Template: templateOf(pod), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
		}}
		_, err := admin.AppsV1().StatefulSets(namespace).Create(t.Context(), set, dryRun)
		return err
	},
}

// TestAttacks has the controllers make each pod, and a user of our roles the Jobs and Deployments that such pods come of.
func TestAttacks(t *testing.T) {
	restrict(t, map[string]string{"pools.gold-pool": "research", "priorities.reserved": "research"})
	namespace := team(t, nil)
	for name, test := range attacks {
		t.Run(name, func(t *testing.T) {
			pod := plain()
			test.change(pod)
			want := test.want
			if strings.HasPrefix(want, "priority class reserved") {
				reservedClass(t)
			}
			checkRefusal(t, makePod(t, jobController, namespace, pod.DeepCopy()), want)
			if test.podsAlone {
				want = ""
			}
			for kind, make := range makers {
				t.Run(kind, func(t *testing.T) { checkRefusal(t, make(t, user("ana"), namespace, pod.DeepCopy()), want) })
			}
		})
	}
}
