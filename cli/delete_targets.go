package cli

import (
	"context"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/spelling"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// class is the class of an object to delete.
type class string

const (
	classJob       class = "job"
	classPool      class = "pool"
	classQuota     class = "quota"
	classNamespace class = "namespace"

	classReservation class = "reservation"
)

// classes maps the words of arguments to classes.
var classes = map[string]class{
	"job": classJob, "jobs": classJob,
	"pool": classPool, "pools": classPool,
	"quota": classQuota, "quotas": classQuota,
	"reservation": classReservation, "reservations": classReservation,
	"namespace": classNamespace, "namespaces": classNamespace, "ns": classNamespace,
}

// target is one object to delete.
type target struct {
	class class
	// declaresNoNodes says that the target is a pool whose file names no nodes. Such a pool need not exist: a pool consists only of its nodes.
	declaresNoNodes bool
	// Ref has a namespace and a kind only if the target is a job.
	submit.Ref
}

// resolveTargets reads the objects to delete from the arguments, the files, or the cluster.
func (o *deleteOptions) resolveTargets(ctx context.Context, args []string) ([]target, error) {
	byLabel := o.selector != "" || o.all
	if len(args) == 1 && byLabel && classes[args[0]] == classJob {
		args = nil // "delete jobs --all"
	}
	if len(o.files) > 0 {
		o.files, args = append(o.files, args...), nil // as in "-f a.yaml b.yaml"
	}
	switch {
	case len(o.files) > 0 && byLabel, len(args) > 0 && byLabel:
		return nil, usageErrorf("give one of names, -f FILE, -l SELECTOR and --all, not several of them")
	case o.kind != "" && !byLabel:
		return nil, usageErrorf("--kind goes with -l or --all")
	case len(o.files) > 0:
		return o.targetsFromFiles()
	case byLabel:
		return o.targetsFromCluster(ctx)
	}
	return o.targetsFromArgs(args)
}

func (o *deleteOptions) targetsFromArgs(args []string) ([]target, error) {
	word := classJob
	if len(args) > 0 {
		if named, ok := classes[args[0]]; ok {
			word, args = named, args[1:]
		}
	}
	if len(args) == 0 {
		if word != classJob {
			return nil, usageErrorf("nothing to delete: gpuctl delete %s needs names", string(word))
		}
		return nil, usageErrorf("nothing to delete: give names, or -f FILE")
	}
	var out []target
	for _, arg := range args {
		prefix, name, ok := strings.Cut(arg, "/")
		named, known := classes[prefix]
		switch {
		case !ok && word != classJob:
			out = append(out, target{class: word, Ref: submit.Ref{Name: arg}})
		case ok && known && named != classJob:
			out = append(out, target{class: named, Ref: submit.Ref{Name: name}})
		default:
			refs, err := o.factory.jobRefs([]string{arg})
			if err != nil {
				return nil, err
			}
			out = append(out, target{class: classJob, Ref: refs[0]})
		}
	}
	return out, nil
}

func (o *deleteOptions) targetsFromFiles() ([]target, error) {
	docs, err := o.factory.readDocuments(o.files)
	if err != nil {
		return nil, err
	}
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return nil, err
	}
	var out []target
	for _, doc := range docs {
		t := target{class: classJob, Ref: submit.Ref{Name: doc.Name}}
		switch {
		case doc.GeneratesName():
			return nil, usageErrorf("%sjobs of job.generate-name have names of their own, which the file does not tell: delete them by name, see gpuctl get jobs", doc.positionPrefix())
		case doc.Pool != nil:
			t.class, t.declaresNoNodes = classPool, len(doc.Pool.Nodes) == 0
		case doc.Quota != nil:
			t.class = classQuota
		case doc.Reservation != nil:
			t.class = classReservation
		default:
			t.Kind, t.Namespace = string(doc.Kind), namespace
			if doc.Namespace != "" {
				t.Namespace = doc.Namespace
			}
		}
		out = append(out, t)
	}
	return out, nil
}

// targetsFromCluster finds the jobs of the namespace that the flags select.
func (o *deleteOptions) targetsFromCluster(ctx context.Context) ([]target, error) {
	if err := checkKind(o.kind); err != nil {
		return nil, err
	}
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return nil, err
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return nil, err
	}
	jobs, err := reader.Jobs(ctx, inventory.JobQuery{Namespace: namespace, Selector: o.selector})
	if err != nil {
		return nil, err
	}
	refs := make([]submit.Ref, len(jobs))
	for i, job := range jobs {
		refs[i] = submit.Ref{Namespace: job.Namespace, Name: job.Name, Kind: job.Kind}
	}
	if o.selector == "" {
		broken, err := o.interruptedJobs(ctx, namespace)
		if err != nil {
			return nil, err
		}
		refs = append(refs, broken...)
	}
	var out []target
	for _, ref := range refs {
		if o.kind == "" || ref.Kind == o.kind {
			out = append(out, target{class: classJob, Ref: ref})
		}
	}
	if len(out) == 0 {
		o.factory.IO.printErr("No jobs found.")
	}
	return out, nil
}

// interruptedJobs returns the jobs whose replacement was interrupted. Lists do not contain them because they have no Job.
func (o *deleteOptions) interruptedJobs(ctx context.Context, namespace string) ([]submit.Ref, error) {
	writer, err := o.factory.newWriter()
	if err != nil {
		return nil, err
	}
	return writer.InterruptedJobs(ctx, namespace)
}

// checkKind refuses an unknown kind of job; "" is any kind.
func checkKind(kind string) error {
	if kind == "" || slices.Contains(jobKinds(), kind) {
		return nil
	}
	return usageErrorf("unknown kind %q%s: want one of %s", kind, spelling.DidYouMean(kind, jobKinds()), strings.Join(jobKinds(), ", "))
}
