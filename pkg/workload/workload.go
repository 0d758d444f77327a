// Package workload is gpuctl's YAML: its types, its strict parser and its defaults.
//
// [Parse] reads a file of one or more documents of the kinds training, inference, notebook, compute,
// pool and quota. It reports everything that is wrong with the file at once, each problem with its line and column.
// What each field means is written once, in the tables of fields_job.go, fields_pool.go and fields_quota.go: they
// drive decoding, the suggestions for misspelt keys and the reference in docs/yaml.md.
//
// The package is pure: it reads no file, no clock and no cluster.
package workload

import (
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Kind is the kind of a document.
type Kind string

// The kinds of documents. The word resource is read as an alias of pool.
const (
	KindTraining  Kind = "training"
	KindInference Kind = "inference"
	KindNotebook  Kind = "notebook"
	KindCompute   Kind = "compute"
	KindPool      Kind = "pool"
	KindQuota     Kind = "quota"
	// KindReservation keeps nodes for some for a time.
	KindReservation Kind = "reservation"
)

// aliasOfPool is another word for [KindPool].
const aliasOfPool = "resource"

// Kinds lists every kind, in the order in which documentation shows them.
var Kinds = []Kind{KindTraining, KindInference, KindNotebook, KindCompute, KindPool, KindQuota, KindReservation}

// IsGang says whether the job's pods are members of a gang: they are placed at once or not at all.
func (j *Job) IsGang() bool {
	return j.Resources.Nodes > 1
}

// IsJob says whether documents of the kind describe a job, which runs in pods.
func (k Kind) IsJob() bool {
	return k == KindTraining || k.IsService()
}

// IsService says whether jobs of the kind run until they are deleted, and may be reached over the network.
func (k Kind) IsService() bool {
	return k == KindInference || k == KindNotebook || k == KindCompute
}

// Priority orders the jobs that wait for GPUs. Only high ones preempt others.
type Priority string

// The priorities of jobs.
const (
	PriorityHigh   Priority = "high"
	PriorityMedium Priority = "medium"
	PriorityLow    Priority = "low"
)

// Document is one document of a file. Exactly one of Job, Pool, Quota and Reservation is set.
type Document struct {
	Kind Kind
	// Name is the name of the job, the pool, the quota or the reservation.
	Name string
	// Namespace is job.namespace; empty if the document names none.
	Namespace string
	Job       *Job
	Pool      *Pool
	Quota     *Quota
	// Reservation is that of kind reservation.
	Reservation *Reservation
	// Source is the document's text as it was submitted.
	Source string
	// Filled is what the job's preset filled of that, as YAML in one line such as {gpu: 2, cpu: 8}; "" if nobody knows.
	// Writing and reading it is for package jobplan.
	Filled string
	// Upload is the folder that job.workdir names, once it is packed or in the cluster; nil before that.
	Upload *Upload
	// Line is the line of the file on which the document's content begins, from 1.
	Line int
}

// Job is a training, inference, notebook or compute document with its defaults filled in.
type Job struct {
	Kind        Kind
	Name        string
	Namespace   string
	Description string
	Priority    Priority
	// TTL is how long a finished training job is kept; nil keeps it until it is deleted.
	TTL *time.Duration
	// Retries is how often the pod of a training job is started again after it failed.
	Retries int32
	// DependsOn are the jobs of the namespace that it starts after.
	DependsOn []string
	// After says how they have to end; empty is [AfterOK].
	After After
	// Workdir is the folder of the submitting machine that is sent with the job; "" for none.
	Workdir string
	// Notify says whom to tell how the job goes; nil tells nobody.
	Notify *Notify
	// Array is set for a job that runs its program many times; nil runs it once.
	Array       *Array
	Environment Environment
	Resources   Resources
	// Service is nil for training jobs, and set for all others.
	Service *Service
	Storage Storage
}

// After says how the jobs have to end that another one starts after.
type After string

const (
	// AfterOK starts it when all have succeeded.
	AfterOK After = names.AfterOK
	// AfterAny starts it when all have ended, however that was.
	AfterAny After = names.AfterAny
)

// Array is a job that runs its program once for each of many tasks, which are numbered from 0.
type Array struct {
	// Tasks is how many there are, at least 1.
	Tasks int32
	// AtOnce is how many run at a time at most, from 1 to Tasks.
	AtOnce int32
}

// Distributed says how the members of a job on several nodes learn about each other.
type Distributed string

const (
	// DistributedAuto sets the variables by which launchers such as torchrun find the other nodes.
	DistributedAuto Distributed = "auto"
	// DistributedNone sets none.
	DistributedNone Distributed = "none"
)

// Environment is what runs: an image, a command and its variables.
type Environment struct {
	Image string
	// ImagePullPolicy is empty where Kubernetes shall decide.
	ImagePullPolicy corev1.PullPolicy
	ImagePullSecret string
	Command         []string
	Args            []string
	Env             []corev1.EnvVar
	// Stdin lets users type to the program, by attaching to it; TTY gives it a terminal for that.
	Stdin, TTY bool
	// Distributed is without meaning for jobs on one node.
	Distributed Distributed
}

// Resources is what each pod of a job asks for. Nil quantities are not asked for.
type Resources struct {
	// Preset names what fills the fields that the document leaves out; "" for nothing. Filling it in is for package jobplan.
	Preset string
	// Pool is the pool of nodes to run in, [names.DefaultPool] if the document names none.
	Pool string
	// Nodes is the number of nodes that the job runs on at once, at least 1. It has a pod on each.
	Nodes int32
	// Topology says how the nodes of a job on several are to lie; nil leaves it to the scheduler.
	Topology *Topology
	// GPU is the number of GPUs of each pod.
	GPU int64
	// GPUTypes are the acceptable models of GPUs, the preferred one first. Empty accepts all.
	GPUTypes []string
	// GPUTypesListed says that the types are written as a list, also if it is of one. The scheduler then looks for
	// them in every label that names a type.
	GPUTypesListed bool
	// GPUShare is the memory asked on each of the GPUs, in pools that share them.
	GPUShare *resource.Quantity
	// MIG are slices of GPUs, instead of whole ones.
	MIG    []MIGSlices
	CPU    *resource.Quantity
	Memory *resource.Quantity
	// SHM is the size of /dev/shm. Nil leaves it to the renderer; zero asks for none.
	SHM         *resource.Quantity
	Tolerations []corev1.Toleration
	// TimeLimit is how long a training job may run, of an array each run of a task; nil is no limit.
	TimeLimit *time.Duration
	// MinRuntime is for how long after its start a pod may not be preempted; nil leaves it to the pool.
	MinRuntime *time.Duration
	// CheckpointGrace is how long the job has to save its work before it is preempted; nil leaves it to the pool.
	CheckpointGrace *time.Duration
	// IdleTimeout is for how long the GPUs may do nothing until the job is paused; nil is for ever.
	IdleTimeout *time.Duration
}

// AsksGPUs says whether a pod gets GPUs, or slices of them.
func (r *Resources) AsksGPUs() bool { return r.GPU > 0 || len(r.MIG) > 0 }

// TopologyMode says how much it matters that the nodes of a job lie close together.
type TopologyMode string

const (
	// TopologyPreferred takes the nodes that lie closest, wherever that is.
	TopologyPreferred TopologyMode = names.TopologyPreferred
	// TopologyRequired waits until one domain has room for all.
	TopologyRequired TopologyMode = names.TopologyRequired
)

// Topology is how the nodes of a job lie in the fabric of the cluster.
type Topology struct {
	// Level is a kind of domain: zone, rack, nvlink, or the key of a label of nodes.
	Level string
	Mode  TopologyMode
	// Wait is how long a job that prefers one domain holds out for it; nil takes the next best places at once.
	Wait *time.Duration
}

// MaxTopologyWait is the longest wait for a domain.
const MaxTopologyWait = 24 * time.Hour

// Service is how a long-running job is reached, and how often it runs.
type Service struct {
	Replicas int32
	// Port is the port of the Service; 0 if the job listens on none.
	Port int32
	// TargetPort is the port on which the container listens.
	TargetPort int32
	// Protocol is what is spoken on the port; empty is TCP.
	Protocol corev1.Protocol
	Type     corev1.ServiceType
	// HealthCheck is the HTTP path that answers when the job is healthy; empty means no probes.
	HealthCheck string
	// StartupTimeout is how long the container may take until HealthCheck answers the first time.
	StartupTimeout time.Duration
	// Autoscaling lets Kubernetes choose the replicas; nil keeps to Replicas.
	Autoscaling *Autoscaling
}

// Autoscaling bounds the replicas that Kubernetes chooses, and says by what. At least one of CPU and GPU is set.
type Autoscaling struct {
	Min, Max int32
	// CPU is the percentage of the asked CPU that replicas shall use on average.
	CPU *int32
	// GPU is the percentage of the time that GPUs of replicas shall be busy on average.
	GPU *int32
}

// Storage is what is mounted into the container.
type Storage struct {
	Workdirs []Workdir
	// Volumes are mounted after the workdirs.
	Volumes []Volume
}

// Dirs returns the workdirs and after them the volumes, each with its path in the document, such as
// storage.workdirs[0].
func (s *Storage) Dirs() iter.Seq2[*Workdir, string] {
	return func(yield func(*Workdir, string) bool) {
		for i := range s.Workdirs {
			if !yield(&s.Workdirs[i], fmt.Sprintf("storage.workdirs[%d]", i)) {
				return
			}
		}
		for i := range s.Volumes {
			if !yield(&s.Volumes[i].Workdir, "storage."+s.Volumes[i].Name) {
				return
			}
		}
	}
}

// Volume is a mount with a name of its own.
type Volume struct {
	// Name is that of the pod's volume.
	Name string
	Workdir
}

// Workdir is one mount: a folder or file of the node, an existing claim, or a claim made with the job.
type Workdir struct {
	// Path is the node's path; empty when the mount is a claim.
	Path string
	// MountPath is where the container sees it; never empty after parsing.
	MountPath string
	ReadOnly  bool
	// Type is the check that the kubelet makes on the node's path; empty makes none.
	Type corev1.HostPathType
	// Claim is the name of an existing PersistentVolumeClaim.
	Claim string
	// Size is the size of the claim to make with the job; nil makes none.
	Size *resource.Quantity
	// StorageClass is the class of the claim to make; empty is the cluster's default class.
	StorageClass string
}

// Pool is a named set of nodes.
type Pool struct {
	Name        string
	Description string
	Nodes       []PoolNode
	// Constraints are what its nodes must be like, and what it must have.
	Constraints names.PoolConstraints
	// Access says who may use it.
	Access names.PoolAccess
	// IdleTimeout is what its jobs get that do not say otherwise; nil is for ever.
	IdleTimeout *time.Duration
	// MinRuntime is what its jobs get that do not say otherwise; nil is none. MaxMinRuntime is the longest that one gets; nil is
	// MinRuntime.
	MinRuntime, MaxMinRuntime *time.Duration
	// CheckpointGrace is what its jobs get that do not say otherwise; nil is none. MaxCheckpointGrace is the longest that one
	// gets; nil is what is usual.
	CheckpointGrace, MaxCheckpointGrace *time.Duration
}

// PoolNode is a node of a pool.
type PoolNode struct {
	Name string
	// GPUType is the model to label the node with; empty leaves the node's label as it is.
	GPUType string
}

// Quota bounds what the jobs of namespaces may reserve together.
type Quota struct {
	Name        string
	Description string
	Namespaces  []NamespaceQuota
}

// NamespaceQuota is the bound of one namespace. What is nil is not bounded.
type NamespaceQuota struct {
	Namespace string
	// GPU is the number of whole GPUs.
	GPU *int64
	// SharedGPU is the number of slots on shared GPUs; after parsing it is GPU where the document names none.
	SharedGPU *int64
	// MIG are numbers of MIG slices, by profile.
	MIG    []MIGSlices
	CPU    *resource.Quantity
	Memory *resource.Quantity
	// Storage is the size of all claims together.
	Storage *resource.Quantity
	Pods    *int64
}

// Defaults of optional fields.
const (
	defaultRetries        = 3
	defaultInferencePort  = 8000
	defaultNotebookPort   = 8888
	defaultStartupTimeout = 30 * time.Minute
)

// newJob returns a job of the kind that has every default which depends on nothing else.
func newJob(kind Kind) *Job {
	job := &Job{
		Kind:      kind,
		Priority:  PriorityMedium,
		Retries:   defaultRetries,
		Resources: Resources{Pool: names.DefaultPool, Nodes: 1},

		Environment: Environment{Distributed: DistributedAuto},
	}
	if !kind.IsService() {
		return job
	}
	job.Service = &Service{Replicas: 1, Type: corev1.ServiceTypeNodePort, StartupTimeout: defaultStartupTimeout}
	switch kind {
	case KindInference:
		job.Service.Type = corev1.ServiceTypeClusterIP
		job.Service.Port = defaultInferencePort
	case KindNotebook:
		job.Service.Port = defaultNotebookPort
	}
	return job
}

// fillDerived sets the defaults that follow from other fields.
func (j *Job) fillDerived() {
	if j.Service != nil && j.Service.TargetPort == 0 {
		j.Service.TargetPort = j.Service.Port
	}
	if j.Notify != nil && len(j.Notify.On) == 0 {
		j.Notify.On = notifyDefault
	}
	for dir := range j.Storage.Dirs() {
		dir.fillDerived()
	}
}

func (w *Workdir) fillDerived() {
	if w.MountPath == "" {
		w.MountPath = w.Path
	}
	if w.Claim != "" || w.Size != nil {
		w.Path = ""
	}
}
