// Package ledger derives who held which GPU from when to when. It is a pure function of what was known and what is observed of pods. Package store
// persists it, recorder watches the cluster for it, and server and client answer queries.
//
// A pod holds its GPUs from its binding until its containers have ended, or until it is gone. The times are those that Kubernetes wrote into the pod,
// so that every derivation has the same result, however late. What cannot be known, such as the end of a pod that nobody watched, is marked and never
// guessed.
package ledger

import (
	"reflect"
	"time"
)

// Holding is the GPUs of one pod, and for how long it holds them. JSON keys are a contract.
type Holding struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Job is the job's name, with its kind and the UID of its object; "" for pods without a job.
	Job    string `json:"job,omitempty"`
	Kind   string `json:"kind,omitempty"`
	JobUID string `json:"jobUID,omitempty"`
	// User is the submitter of the job.
	User    string `json:"user,omitempty"`
	Node    string `json:"node"`
	Pool    string `json:"pool"`
	GPUType string `json:"gpuType,omitempty"`
	// Milli is the amount of GPUs in thousandths of a GPU.
	Milli int64 `json:"gpuMilli"`
	// GPUs are the individual GPUs, if known.
	GPUs []GPU `json:"gpus,omitempty"`
	// From is when the pod was bound.
	From time.Time `json:"from"`
	// To is when it released them, zero while it holds them. If that is not known to the second, To is the last moment at which it certainly held
	// them, and Until the first at which it certainly did not.
	To    time.Time `json:"to,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Outcome is the pod's last phase, or Deleted if it was deleted before it had ended.
	Outcome string `json:"outcome,omitempty"`
	// ExitCode is that of the container that failed first, 0 without one.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Load is the measured load of its GPUs, and Efficiency its exported form; nil if nothing is measured.
	Load       Load        `json:"-"`
	Efficiency *Efficiency `json:"efficiency,omitempty"`
}

// GPU is a GPU held by a pod. JSON keys are a contract.
type GPU struct {
	UUID  string `json:"uuid"`
	Index int    `json:"index"`
	// MemoryMiB is the held memory of a shared GPU; 0 means the whole GPU.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}

// HasEnded reports whether the pod no longer holds its GPUs.
func (h *Holding) HasEnded() bool { return !h.To.IsZero() }

// OutcomeDeleted is the outcome of a pod or job that was deleted before it had ended.
const OutcomeDeleted = "Deleted"

// Job is the record of a job, which outlives it. JSON keys are a contract.
type Job struct {
	UID string `json:"uid"`
	// Object is the resource of the job in Kubernetes: jobs or deployments.
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
	// Uncertain says that its end was not observed: it had ended by Finished.
	Uncertain bool `json:"uncertain,omitempty"`
	// Deleted is when the object was deleted, zero while it exists.
	Deleted time.Time `json:"deleted,omitzero"`
	// Efficiency is the utilization of its pods' GPUs; nil if nothing is measured. It is derived from their holdings.
	Efficiency *Efficiency `json:"efficiency,omitempty"`
}

// Equal reports whether both records are equal.
func (j *Job) Equal(other *Job) bool { return reflect.DeepEqual(j, other) }

// Gap is a time range whose cluster history could not be read: it is known who held GPUs throughout it, but not who began and ended within it. JSON
// keys are a contract.
type Gap struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}
