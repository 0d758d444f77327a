package inventory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// JobDetail is a job with all that is known of it.
type JobDetail struct {
	Job
	Description string `json:"description,omitempty"`
	// Submitted is the YAML that the job was made from, "" when it was not made by gpuctl.
	Submitted string `json:"-"`
	// Meta is the metadata of the job's object, nil when only pods of the job are left.
	Meta *metav1.ObjectMeta `json:"-"`
	// Retries is how often a failed pod is replaced, for each rank of a job on several nodes; nil for a job that runs without end.
	Retries   *int32    `json:"-"`
	Container Container `json:"container"`
	// Notify is the channel that is notified of the job's outcome, nil for none.
	Notify   *Notify   `json:"notify,omitempty"`
	Services []Service `json:"services,omitempty"`
	// Broken are GPUs that its pods hold and that must not be used any longer; see [Reader.FillDevices].
	Broken []BrokenGPU `json:"brokenGPUs,omitempty"`
	// Segments are the domains of the job's segments; see [Reader.FillSegments].
	Segments []Segment `json:"segments,omitempty"`
	// Events are the events of the job's object, its pods and all objects between them, the oldest first.
	Events []Event `json:"events,omitempty"`
	// Past are the events of deleted pods of the job.
	Past []Event `json:"-"`
	// Template is what the job's pods are made from, nil when only pods of the job are left.
	Template *corev1.PodTemplateSpec `json:"-"`
	// TimeLimit is how long the job may run, of an array each run of a task, 0 for no limit.
	TimeLimit time.Duration `json:"-"`
	// TTL is how long the job is kept after it has finished, nil for ever.
	TTL *time.Duration `json:"-"`
	// Began is when its pods were first asked for, nil before that.
	Began *time.Time `json:"-"`
}

// Container is what each pod of a job runs and asks.
type Container struct {
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Requests are quantities by resource name.
	Requests map[string]string `json:"requests,omitempty"`
	// Env are the variables, as NAME=value or as NAME with where the value comes from.
	Env []string `json:"env,omitempty"`
	// Mounts are the mounted paths, each with its source.
	Mounts []string `json:"mounts,omitempty"`
}

// Service is how a job is reached over the network.
type Service struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	ClusterIP string `json:"clusterIP,omitempty"`
	Port      int32  `json:"port"`
	NodePort  int32  `json:"nodePort,omitempty"`
}

// Event is one thing that happened, and how often.
type Event struct {
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Object  string    `json:"object"`
	Message string    `json:"message"`
	Count   int32     `json:"count"`
	Last    time.Time `json:"last"`
	// Related is the other pod that an event is about, as namespace/name: the preemptor of a pod.
	Related string `json:"-"`
}

// BuildDetails computes the details of the jobs that the objects describe.
func BuildDetails(objects *snapshot.Snapshot) []JobDetail {
	services, sets := objects.Services, objects.ReplicaSets
	jobs := buildJobs(objects)
	out := make([]JobDetail, len(jobs))
	for i, job := range jobs {
		key := jobKey{namespace: job.Namespace, kind: job.Kind, name: job.Name}
		uids, nodes := map[types.UID]bool{job.Object.UID: true}, map[types.UID]string{}
		out[i].Job = job
		for j := range sets {
			if owner, _ := findJobKey(&sets[j].ObjectMeta); owner == key {
				uids[sets[j].UID] = true
			}
		}
		for j := range objects.Pods {
			if podJobKey(&objects.Pods[j]) == key {
				uids[objects.Pods[j].UID], nodes[objects.Pods[j].UID] = true, objects.Pods[j].Spec.NodeName
				out[i].fillHeldDevices(&objects.Pods[j])
			}
		}
		for j := range services {
			if owner, _ := findJobKey(&services[j].ObjectMeta); owner == key {
				uids[services[j].UID] = true
				out[i].Services = append(out[i].Services, buildService(&services[j]))
			}
		}
		if job.Foreign {
			addWorkloadUIDs(uids, objects.Events, &job)
		}
		delete(uids, "") // events may be about nothing that exists
		out[i].Events = buildEvents(objects.Events, uids, nodes)
		out[i].Past = pastEvents(objects.Events, out[i].Events, uids)
		out[i].fillFromObject(objects)
		if job.Foreign && out[i].Template == nil {
			out[i].fillFromPods(objects.Pods)
		}
	}
	return out
}

// PodDetail returns a pod that belongs to no job in the form of a job, with the pod's name and a kind that no job has.
func PodDetail(pod *corev1.Pod, kind string) JobDetail {
	own := pod.DeepCopy()
	if own.Labels == nil {
		own.Labels = map[string]string{}
	}
	own.Labels[names.LabelJob], own.Labels[names.LabelJobType] = pod.Name, kind
	out := BuildDetails(&snapshot.Snapshot{Pods: []corev1.Pod{*own}})[0]
	out.Status, out.Trouble = out.Pods[0].status, out.Pods[0].Trouble
	return out
}

// fillFromObject fills in the data of the job's own object.
func (d *JobDetail) fillFromObject(objects *snapshot.Snapshot) {
	for i := range objects.Jobs {
		if job := &objects.Jobs[i]; job.UID == d.Object.UID {
			d.Meta, d.Notify = &job.ObjectMeta, readNotify(&job.ObjectMeta)
			d.Retries = cmp.Or(job.Spec.BackoffLimitPerIndex, job.Spec.BackoffLimit)
			d.Description = job.Annotations[names.AnnotationDescription]
			d.Submitted = job.Annotations[names.AnnotationSubmitted]
			d.Container = buildContainer(&job.Spec.Template.Spec)
			d.Template = &job.Spec.Template
			d.TimeLimit = jobTimeLimit(job, d.Array != nil)
			if ttl := job.Spec.TTLSecondsAfterFinished; ttl != nil {
				d.TTL = ptr.To(time.Duration(*ttl) * time.Second)
			}
			if job.Status.StartTime != nil {
				d.Began = &job.Status.StartTime.Time
			}
		}
	}
	for i := range objects.Deployments {
		if deployment := &objects.Deployments[i]; deployment.UID == d.Object.UID {
			d.Meta, d.Notify = &deployment.ObjectMeta, readNotify(&deployment.ObjectMeta)
			d.Description = deployment.Annotations[names.AnnotationDescription]
			d.Submitted = deployment.Annotations[names.AnnotationSubmitted]
			d.Container = buildContainer(&deployment.Spec.Template.Spec)
			d.Template = &deployment.Spec.Template
		}
	}
}

// fillFromPods fills in what a workload of which only pods are read runs, by its first pod with GPUs.
func (d *JobDetail) fillFromPods(pods []corev1.Pod) {
	for i := range pods {
		if d.HasPod(&pods[i]) && (len(d.Container.Requests) == 0 || asksGPUs(&pods[i])) {
			d.Container = buildContainer(&pods[i].Spec)
			if asksGPUs(&pods[i]) {
				return
			}
		}
	}
}

// buildContainer reads the first container: jobs of gpuctl have one.
func buildContainer(pod *corev1.PodSpec) Container {
	if len(pod.Containers) == 0 {
		return Container{}
	}
	first := &pod.Containers[0]
	out := Container{Image: first.Image, Command: first.Command, Args: first.Args, Requests: map[string]string{}}
	out.Env, out.Mounts = environmentVariables(first), mountTexts(pod, first)
	for name, quantity := range first.Resources.Requests {
		out.Requests[string(name)] = quantity.String()
	}
	return out
}

func buildService(service *corev1.Service) Service {
	out := Service{Name: service.Name, Type: string(service.Spec.Type), ClusterIP: service.Spec.ClusterIP}
	if len(service.Spec.Ports) > 0 {
		out.Port, out.NodePort = service.Spec.Ports[0].Port, service.Spec.Ports[0].NodePort
	}
	return out
}

// agentName is the component that writes events on the pods of its node.
const agentName = "gpu-agent"

// buildEvents merges the events of the objects with these UIDs, the oldest first. nodes are the nodes of the pods. It omits events of a pod by the
// agent of another node: such an agent does not know the pod, and a compromised node may write any event.
func buildEvents(events []corev1.Event, uids map[types.UID]bool, nodes map[types.UID]string) []Event {
	var out []Event
	for i := range events {
		e := &events[i]
		if node, isPod := nodes[e.InvolvedObject.UID]; isPod && e.Source.Component == agentName && e.Source.Host != node {
			continue
		}
		if uids[e.InvolvedObject.UID] {
			out = append(out, buildEvent(e))
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Last.Compare(b.Last) })
	return out
}

// createdPod is the prefix of the message with which the controllers of Kubernetes record that they created a pod.
const createdPod = "Created pod: "

// pastEvents returns the events of pods that the controllers of a job created, by known events, and that are gone.
func pastEvents(events []corev1.Event, known []Event, uids map[types.UID]bool) []Event {
	made := map[string]bool{}
	for _, event := range known {
		if name, ok := strings.CutPrefix(event.Message, createdPod); ok && event.Reason == "SuccessfulCreate" {
			made[name] = true
		}
	}
	var out []Event
	for i := range events {
		object := events[i].InvolvedObject
		if object.Kind == "Pod" && made[object.Name] && !uids[object.UID] {
			out = append(out, buildEvent(&events[i]))
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Last.Compare(b.Last) })
	return out
}

// buildEvent reads both forms of an event: the old one counts in itself, the new one in its series.
func buildEvent(e *corev1.Event) Event {
	out := Event{
		Type:    e.Type,
		Reason:  e.Reason,
		Object:  e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name,
		Message: e.Message,
		Count:   max(1, e.Count),
		Last:    e.LastTimestamp.Time,
	}
	if e.Related != nil {
		out.Related = e.Related.Namespace + "/" + e.Related.Name
	}
	if e.Series != nil {
		out.Count, out.Last = e.Series.Count, e.Series.LastObservedTime.Time
	}
	if out.Last.IsZero() {
		out.Last = e.EventTime.Time
	}
	if out.Last.IsZero() {
		out.Last = e.CreationTimestamp.Time
	}
	return out
}
