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
	"time"

	corev1 "k8s.io/api/core/v1"

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
	// PoolShare is the gpu-share that the job's pool filled in, such as 8Gi; "" if it did not.
	PoolShare string
	// Upload is the folder that job.workdir names, once it is packed or in the cluster; nil before that.
	Upload *Upload
	// Line is the line of the file on which the document's content begins, from 1.
	Line int
}

// NamesItself reports whether the document has only the beginning of its job's name: each time it is submitted makes another job.
func (d Document) NamesItself() bool { return d.Job != nil && d.Job.GenerateName != "" }

// Job is a training, inference, notebook or compute document with its defaults filled in.
type Job struct {
	Kind Kind
	// Name is that of the job. Where the document has only its beginning, GenerateName, it ends in [UnmadeSuffix] until the job is
	// submitted.
	Name         string
	GenerateName string
	Namespace    string
	Description  string
	Priority     Priority
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

// UnmadeSuffix stands for the characters that a name ends in which is made when the job is submitted.
const UnmadeSuffix = "xxxxx"

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
