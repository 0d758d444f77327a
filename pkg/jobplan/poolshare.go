package jobplan

import (
	"maps"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TakesShare reports whether a document is a job that gets the GPU share of its pool.
func TakesShare(doc workload.Document) bool {
	return doc.Job != nil && doc.Job.Resources.GPU > 0 && doc.Job.Resources.GPUShare == nil && !doc.Job.Resources.WholeGPUs
}

// PoolShares returns the shares that pools give to such jobs, by pool name. Documents to be written override existing pools.
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

func (e *PoolShareError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *PoolShareError) Message() phrase.Text {
	return phrase.Textf("GPUPool %s gives its jobs a gpu-share of %q: %s", e.Pool, e.Share, e.Text)
}

// KeptShare returns the pool's share that a job keeps when its file is applied again, "" for whole GPUs: neither the file nor the existing job
// specifies a share. It returns false if the job is in another pool, or had its own value.
func KeptShare(live, doc workload.Document) (share string, kept bool) {
	switch {
	case live.Job == nil || !TakesShare(doc) || live.Job.Resources.Pool != doc.Job.Resources.Pool:
		return "", false
	case TakesShare(live):
		return "", true
	}
	given, err := resource.ParseQuantity(live.PoolShare)
	has := live.Job.Resources.GPUShare
	if err != nil || has == nil || has.Cmp(given) != 0 {
		return "", false
	}
	return live.PoolShare, true
}

// ShareNote tells a user which share of its pool a job has, and what the pool gives to new jobs; empty if there is nothing to tell.
func ShareNote(pool, share, now string) phrase.Text {
	switch {
	case share == "" && now == "":
		return nil
	case share == now:
		return phrase.Textf("pool %s gives its jobs gpu-share: %s; gpu-share: 0 asks for whole GPUs", pool, share)
	case share == "":
		return phrase.Textf("it keeps whole GPUs: pool %s gives new jobs gpu-share: %s, which the job gets if its file says so", pool, now)
	case now == "":
		return phrase.Textf("it keeps gpu-share: %s, which pool %s gave it, and gives new jobs no more; gpu-share: 0 asks for whole GPUs", share, pool)
	}
	return phrase.Textf("it keeps gpu-share: %s, which pool %s gave it: new jobs get %s, and so does the job if its file says so", share, pool, now)
}

// FillPoolShare returns a document with the share that its pool gives it, which is "" if it gives none or the job has its own value. From then on it
// is a normal field of the job: a later change of the pool does not change existing jobs. The error is a [PoolShareError].
func FillPoolShare(doc workload.Document, shares map[string]string) (out workload.Document, share string, err error) {
	if !TakesShare(doc) || shares[doc.Job.Resources.Pool] == "" {
		return doc, "", nil
	}
	pool := doc.Job.Resources.Pool
	share = shares[pool]
	source, err := editDocument(doc.Source, func(root *yaml.Node) error {
		resources := ensureChild(root, "resources")
		resolveAlias(resources)
		*ensureChild(resources, "gpu-share") = *literalNode(share)
		return nil
	})
	if err != nil {
		return doc, "", &PoolShareError{pool, share, phrase.Textf("it cannot be filled in: %s", err)}
	}
	out, wrong := reparseFilled(doc, source)
	if wrong != nil {
		return doc, "", &PoolShareError{pool, share, phrase.Textf("it does not go with the job: %s", wrong.Text)}
	}
	out.PoolShare = share
	return out, share, nil
}
