package inventory

import (
	"context"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// JobQuery selects the jobs to read. The zero value reads all jobs of all namespaces.
type JobQuery struct {
	// Namespace is one namespace, or "" for all.
	Namespace string
	// Name is the name of one job, or "" for all.
	Name string
	// Selector is a label selector that jobs and their pods must match, or "" for all.
	Selector string
	// Foreign selects also workloads that gpuctl did not make. Of a name, they are selected if gpuctl made no job of that name.
	Foreign bool
}

func (q JobQuery) snapshotScope() snapshot.Scope {
	labels := names.LabelJob + "," + names.LabelJobType
	if q.Name != "" {
		labels = names.LabelJob + "=" + q.Name + "," + names.LabelJobType
	}
	if q.Selector != "" {
		labels += "," + q.Selector
	}
	return snapshot.Scope{Namespace: q.Namespace, Labels: labels}
}

// jobQueries is what the jobs of a query are built from.
func (q JobQuery) jobQueries() []snapshot.Query {
	return []snapshot.Query{snapshot.Jobs(q.snapshotScope()), snapshot.Deployments(q.snapshotScope()), snapshot.Pods(q.snapshotScope())}
}

// refusalEvents are the events that say why pods could not be created.
func refusalEvents(namespace string) snapshot.Query {
	return snapshot.Events(snapshot.Scope{Namespace: namespace, Fields: snapshot.EventsWithReason(reasonFailedCreate)}).IfAllowed()
}

// Job reads the one job of a name: a [NotFoundError] if there is none, an [AmbiguousError] if there are several.
func (r *Reader) Job(ctx context.Context, namespace, name string) (Job, error) {
	query := JobQuery{Namespace: namespace, Name: name, Foreign: true}
	jobs, err := r.Jobs(ctx, query)
	if err != nil {
		return Job{}, err
	}
	return query.OnlyJob(jobs)
}

// OnlyJob returns the only job of a list that was read with this query, which names one. A job of gpuctl goes before foreign workloads of its name.
func (q JobQuery) OnlyJob(jobs []Job) (Job, error) {
	if slices.ContainsFunc(jobs, func(j Job) bool { return !j.Foreign }) {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j Job) bool { return j.Foreign })
	}
	switch len(jobs) {
	case 0:
		return Job{}, &NotFoundError{Namespace: q.Namespace, Name: q.Name}
	case 1:
		return jobs[0], nil
	}
	kinds := make([]string, len(jobs))
	for i := range jobs {
		kinds[i] = jobs[i].Kind
	}
	return Job{}, &AmbiguousError{Namespace: q.Namespace, Name: q.Name, Kinds: kinds}
}

// Jobs reads jobs and their pods with three requests, six with foreign workloads, seven where the cluster lacks Kueue or has an older one, and two more
// when a job lacks pods, to find out why. It reads committed data, so that a job is listed as soon as its creation has returned.
func (r *Reader) Jobs(ctx context.Context, query JobQuery) ([]Job, error) {
	read, err := query.readObjects(ctx, r.client, query.jobQueries())
	if err != nil {
		return nil, err
	}
	jobs := query.selectNamed(Build(read).Jobs)
	if !anyMissingPods(jobs) {
		return jobs, nil
	}
	why, err := snapshot.Read(ctx, r.client, refusalEvents(query.Namespace), snapshot.Quotas(snapshot.Scope{Namespace: query.Namespace}).IfAllowed())
	if err != nil {
		return nil, err
	}
	read.Events, read.Quotas = why.Events, why.Quotas
	return query.selectNamed(Build(read).Jobs), nil
}

// anyMissingPods reports whether some job waits for pods that do not exist. An ended job waits for none.
func anyMissingPods(jobs []Job) bool {
	_, short := findFirst(jobs, func(j Job) bool {
		return j.Reason != ReasonWaitsForJobs && j.Reason != ReasonHeldByKueue && (j.Status == StatusPending || j.Status == StatusDegraded) && len(j.Pods) < int(j.Desired) || j.countMissingPods() > 0
	})
	return short
}

// WatchJobs calls changed with all jobs of the query, first as they are read, then as the watch has them and after every change, until ctx ends. It
// reads before it watches, so that a problem with the cluster or the query is an error at once. What Kueue holds back is read again with a change, but
// not more often than every [kueueInterval].
func (r *Reader) WatchJobs(ctx context.Context, query JobQuery, changed func([]Job)) error {
	jobs, err := r.Jobs(ctx, query)
	if err != nil {
		return err
	}
	changed(jobs)
	atKueue, held, readAt := query.kueueQueries(), &snapshot.Snapshot{}, time.Time{}
	return r.watchQueries(ctx, func(now *snapshot.Snapshot) {
		if len(atKueue) > 0 && time.Since(readAt) >= kueueInterval {
			if read, err := snapshot.Read(ctx, r.client, atKueue...); err == nil {
				held = read
			}
			readAt = time.Now()
		}
		now = query.withForeign(now)
		now.KueueWorkloads, now.Now = held.KueueWorkloads, time.Now()
		changed(query.selectNamed(Build(now).Jobs))
	}, append(query.watchQueries(jobs), refusalEvents(query.Namespace))...)
}

// kueueInterval is how long the position of a job at Kueue may be old in what is watched: each reading lists all of Kueue's Workloads.
const kueueInterval = 10 * time.Second

// Details reads all about the jobs of a query: three requests more than [Reader.Jobs] has. The query names a job and
// a namespace; more than one detail comes back only for jobs of one name and different kinds.
func (r *Reader) Details(ctx context.Context, query JobQuery) ([]JobDetail, error) {
	read, err := query.ReadDetailObjects(ctx, r.client)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(BuildDetails(read), func(job JobDetail) bool { return query.Name != "" && job.Name != query.Name }), nil
}

// ReadDetailObjects reads what [BuildDetails] needs of the jobs of a query.
func (q JobQuery) ReadDetailObjects(ctx context.Context, client kubernetes.Interface) (*snapshot.Snapshot, error) {
	return q.readObjects(ctx, client, q.detailQueries())
}

func (q JobQuery) detailQueries() []snapshot.Query {
	return append(q.jobQueries(), snapshot.Services(q.snapshotScope()), snapshot.ReplicaSets(q.snapshotScope()), snapshot.Events(snapshot.Scope{Namespace: q.Namespace}))
}
