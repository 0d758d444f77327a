package diagnosis

import (
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// waitsForJobs explains a job that starts after others: the state of each, and the remedies for those that will not end as required.
func waitsForJobs(f *Facts) Finding {
	job := &f.Job
	out := Finding{Cause: reason.WaitsForJobs}
	without := Step{Action: reason.Resume, Command: gpuctlCommand("resume", job), Message: phrase.Textf("start it without waiting: %s", gpuctlCommand("resume", job))}
	if way := findDependencyCycle(f); way != nil {
		out.Message = phrase.Textf("jobs wait for each other, and none of them starts: %s", jobplan.FormatCycle(way))
		out.Steps = []Step{without}
		return out
	}
	if len(job.WaitsFor) == 0 { // its list of pending jobs cannot be read
		out.Message, out.Steps = phrase.FromEnglish(job.Message), []Step{without}
		return out
	}
	var stand []phrase.Text
	met := 0
	for _, name := range job.WaitsFor {
		d := f.findDependency(name)
		stand = append(stand, d.text)
		out.Steps = append(out.Steps, d.steps...)
		if d.met {
			met++
		}
	}
	out.Message = phrase.Textf("it starts when %s: %s", inventory.EndingText(job.WaitsFor, job.After), phrase.Join(stand, phrase.Textf(", ")))
	switch {
	case met == len(job.WaitsFor):
		out.Steps = []Step{waitStep("wait some seconds: gpu-controller lets it start"), {
			Action: reason.StartControllers, Kind: "Deployment", Name: "gpu-controller", Command: "kubectl -n kube-system get deployment gpu-controller",
			Message: phrase.Textf("if it lasts, have the administrators start gpu-controller: kubectl -n kube-system get deployment gpu-controller"),
		}}
	case len(out.Steps) == 0:
		out.Steps = []Step{waitStep("wait until they end")}
	}
	out.Steps = append(out.Steps, without)
	return out
}

// dependency is the state of a job that another one starts after.
type dependency struct {
	text  phrase.Text
	steps []Step
	// met is true if the job ended as required.
	met bool
}

func (f *Facts) findDependency(name string) dependency {
	var other *inventory.JobDetail
	for i := range f.Others {
		if f.Others[i].Name == name {
			other = &inventory.JobDetail{Job: f.Others[i]}
		}
	}
	switch {
	case other == nil:
		return dependency{text: phrase.Textf("%s is not there", name), steps: []Step{{Action: reason.CreateAgain, Name: name,
			Message: phrase.Textf("create %s: what ended before it was deleted is not known", name)}}}
	case other.Object.Kind != kindJob:
		return dependency{text: phrase.Textf("%s is of kind %s, which goes on until it is deleted", name, other.Kind), steps: []Step{{
			Action: reason.Resubmit, Name: f.Job.Name, Command: gpuctlCommand("delete", &f.Job),
			Message: phrase.Textf("waiting does not help: %s never ends by itself. Delete this job and create it again without it: %s", name, gpuctlCommand("delete", &f.Job))}}}
	}
	out := dependency{text: phrase.Textf("%s is %s", name, other.Status)}
	switch other.Status {
	case inventory.StatusSucceeded:
		out.text, out.met = phrase.Textf("%s has succeeded", name), true
	case inventory.StatusFailed, inventory.StatusCancelled:
		out.text = phrase.Textf("%s has failed", name)
		if other.Status == inventory.StatusCancelled {
			out.text = phrase.Textf("%s was cancelled", name)
		}
		if out.met = f.Job.After == names.AfterAny; !out.met {
			out.steps = []Step{{Action: reason.Retry, Name: name, Command: gpuctlCommand("retry", other),
				Message: phrase.Textf("start %s over: %s", name, gpuctlCommand("retry", other))}}
		}
	}
	return out
}

// kindJob is the kind of objects that end.
const kindJob = "Job"

// findDependencyCycle returns a path from the job back to itself through waiting jobs, nil if there is none.
func findDependencyCycle(f *Facts) []string {
	waits := map[string][]string{f.Job.Name: f.Job.WaitsFor}
	for i := range f.Others {
		if f.Others[i].Object.Kind == kindJob {
			waits[f.Others[i].Name] = f.Others[i].WaitsFor
		}
	}
	return jobplan.FindCycle(f.Job.Name, waits)
}
