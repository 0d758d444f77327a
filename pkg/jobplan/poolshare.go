package jobplan

import (
	"maps"

	"go.yaml.in/yaml/v3"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TakesShare reports whether a document is a job that leaves it to its pool how much of its GPUs it gets.
func TakesShare(doc workload.Document) bool {
	return doc.Job != nil && doc.Job.Resources.GPU > 0 && doc.Job.Resources.GPUShare == nil && !doc.Job.Resources.WholeGPUs
}

// PoolShares are the shares that pools give to such jobs, by the name of the pool. What documents that are to be written say of
// pools goes before what is said now.
func PoolShares(pools []names.GPUPool, docs []workload.Document) map[string]string {
	out := map[string]string{}
	for i := range pools {
		out[pools[i].Name] = pools[i].Spec.Defaults.GPUShare
	}
	for _, doc := range docs {
		if doc.Pool == nil {
			continue
		}
		out[doc.Pool.Name] = ""
		if share := doc.Pool.GPUShare; share != nil {
			out[doc.Pool.Name] = share.String()
		}
	}
	maps.DeleteFunc(out, func(_, share string) bool { return share == "" })
	return out
}

// PoolShareError says why a job cannot have the share of its pool.
type PoolShareError struct {
	Pool, Share string
	Text        phrase.Text
}

func (e *PoolShareError) Error() string { return e.Says().String() }

// Says implements [phrase.Sayer].
func (e *PoolShareError) Says() phrase.Text {
	return phrase.Of("GPUPool %s gives its jobs a gpu-share of %q: %s", e.Pool, e.Share, e.Text)
}

// Shared returns a document with the share that its pool gives it, which is "" where it gives none or the job has its own words
// for it. From then on it is a field of the job like any other: a pool that says otherwise later changes no job that is there.
// The error is a [PoolShareError].
func Shared(doc workload.Document, shares map[string]string) (out workload.Document, share string, err error) {
	if !TakesShare(doc) || shares[doc.Job.Resources.Pool] == "" {
		return doc, "", nil
	}
	pool := doc.Job.Resources.Pool
	share = shares[pool]
	source, err := edit(doc.Source, func(root *yaml.Node) error {
		resources := child(root, "resources")
		own(resources)
		*child(resources, "gpu-share") = *literal(share)
		return nil
	})
	if err != nil {
		return doc, "", &PoolShareError{pool, share, phrase.Of("it cannot be filled in: %s", err)}
	}
	out, wrong := rewritten(doc, source)
	if wrong != nil {
		return doc, "", &PoolShareError{pool, share, phrase.Of("it does not go with the job: %s", wrong.Says)}
	}
	return out, share, nil
}
