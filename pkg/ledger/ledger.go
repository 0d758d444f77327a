// Package ledger is who held which GPU from when to when, derived from what was seen of pods: a pure function of what was
// known and what is seen. Package store keeps it, recorder watches the cluster for it, server and client let users ask.
//
// A pod holds its GPUs from its binding until its containers have ended, or until it is gone. The times are those that
// Kubernetes wrote into the pod, so that whoever derives them, and however late, gets the same. What nobody can know, as
// when a pod went while nobody watched, is marked and never guessed.
package ledger

import (
	"reflect"
	"time"
)

// Holding is what one pod holds of GPUs, and for how long. JSON keys are a contract.
type Holding struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Job is the job's name, its kind and the UID of the object that it was; "" for pods that belong to none.
	Job    string `json:"job,omitempty"`
	Kind   string `json:"kind,omitempty"`
	JobUID string `json:"jobUID,omitempty"`
	// User is who submitted the job.
	User    string `json:"user,omitempty"`
	Node    string `json:"node"`
	Pool    string `json:"pool"`
	GPUType string `json:"gpuType,omitempty"`
	// Milli is how much of GPUs it is, in thousandths of a GPU.
	Milli int64 `json:"gpuMilli"`
	// GPUs are the cards, where they are known by name.
	GPUs []GPU `json:"gpus,omitempty"`
	// From is when the pod was bound.
	From time.Time `json:"from"`
	// To is when it no longer held them, zero while it does. Where that is not known to the second, it is the last moment
	// at which it certainly did, and Until the first at which it certainly did not.
	To    time.Time `json:"to,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Outcome is the pod's last phase, or Deleted where it was taken away before it had ended.
	Outcome string `json:"outcome,omitempty"`
	// ExitCode is that of the container that failed first, 0 without one.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Load is what was measured of its GPUs, and Efficiency that as it is told; nil where nothing is measured.
	Load       Load        `json:"-"`
	Efficiency *Efficiency `json:"efficiency,omitempty"`
}

// GPU is a card that a pod holds. JSON keys are a contract.
type GPU struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"`
	// MemoryMiB is the memory of a shared card that it holds; 0 is the whole card.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}

// Ended reports whether the pod no longer holds its GPUs.
func (h *Holding) Ended() bool { return !h.To.IsZero() }

// OutcomeDeleted is the outcome of a pod, or a job, that was taken away before it had ended.
const OutcomeDeleted = "Deleted"

// Job is what is remembered of a job after it is gone. JSON keys are a contract.
type Job struct {
	UID string `json:"uid"`
	// Object is what the job is in Kubernetes: jobs or deployments.
	Object    string `json:"object"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	// Status is Succeeded, Failed or Cancelled, or Deleted where it had not finished; "" before that.
	Status string `json:"status"`
	// Reason and Message say why it failed.
	Reason   string   `json:"reason,omitempty"`
	Message  string   `json:"message,omitempty"`
	User     string   `json:"user,omitempty"`
	Pool     string   `json:"pool,omitempty"`
	Priority string   `json:"priority,omitempty"`
	GPUs     int64    `json:"gpus"`
	GPUTypes []string `json:"gpuTypes,omitempty"`
	// Created is when it was submitted, and Finished when it had ended: by itself, or by being deleted.
	Created  time.Time `json:"created"`
	Finished time.Time `json:"finished,omitzero"`
	// Uncertain says that nobody saw it end: it had by Finished.
	Uncertain bool `json:"uncertain,omitempty"`
	// Deleted is when the object was taken away, zero while it is there.
	Deleted time.Time `json:"deleted,omitzero"`
	// Efficiency is how busy the GPUs of its pods were; nil where nothing is measured. It follows from what they held.
	Efficiency *Efficiency `json:"efficiency,omitempty"`
}

// Equal reports whether the same is known.
func (j *Job) Equal(other *Job) bool { return reflect.DeepEqual(j, other) }

// Gap is a time of which the history of the cluster could not be read: who held GPUs through it is known, and who began
// and ended within it is not. JSON keys are a contract.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}
