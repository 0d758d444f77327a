package slurm

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// interpreters are the programs that accept a script as the argument of -c.
var interpreters = []string{"bash", "sh", "zsh", "dash", "python", "python3"}

// shells are the interpreters that support the functions of the stand-ins.
var shells = []string{"bash", "zsh"}

// interpreterOf returns the words of a script's #! line, nil if it names no supported interpreter.
func interpreterOf(first string) []string {
	rest, ok := strings.CutPrefix(first, "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return nil
	}
	if path.Base(words[0]) == "env" {
		words = words[1:]
		if len(words) > 0 && words[0] == "-S" {
			words = words[1:]
		}
	}
	if len(words) == 0 || !slices.Contains(interpreters, path.Base(words[0])) {
		return nil
	}
	return append([]string{path.Base(words[0])}, words[1:]...)
}

// buildCommand returns the command that runs the script with the stand-ins for Slurm.
func (r *request) buildCommand() []string {
	interpreter := interpreterOf(r.lines[0])
	body := r.scriptBody()
	if slices.Contains([]string{"sh", "dash"}, interpreter[0]) && r.scriptPrelude() != "" {
		r.addNote(1, "it is run by bash: the stand-ins for Slurm's commands need it")
		interpreter[0] = "bash"
	}
	if slices.Contains(shells, interpreter[0]) {
		body = r.scriptPrelude() + body
	} else if r.usesVariables() {
		r.addNote(0, "Slurm's variables are not set for a script of %s", interpreter[0])
	}
	return jobplan.EscapeDollars(append(interpreter, "-c", body))
}

// scriptBody returns the script without its first line and without #SBATCH lines.
func (r *request) scriptBody() string {
	var out []string
	for _, line := range r.lines[1:] {
		if strings.HasPrefix(line, marker) {
			continue
		}
		out = append(out, strings.TrimRight(line, " \t"))
	}
	text := strings.Trim(strings.Join(out, "\n"), "\n") + "\n"
	if r.directory != "" {
		return "cd " + quoteShell(r.directory) + " || exit\n" + text
	}
	return text
}

// quoteShell quotes a text as one shell word.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// usesCommand reports whether the script runs a command with the name.
func (r *request) usesCommand(command string) bool {
	pattern := regexp.MustCompile(`(^|[^-\w./$])` + regexp.QuoteMeta(command) + `($|[^-\w./=])`)
	return slices.ContainsFunc(r.lines, func(line string) bool {
		line, _, _ = strings.Cut(line, " #")
		return !strings.HasPrefix(strings.TrimSpace(line), "#") && pattern.MatchString(line)
	})
}

func (r *request) usesVariables() bool {
	return slices.ContainsFunc(r.lines, func(line string) bool {
		return !strings.HasPrefix(strings.TrimSpace(line), "#") && strings.Contains(line, "SLURM")
	})
}

// slurmVariables returns Slurm's variables, expressed by ours; each is set only if the script uses it.
func (r *request) slurmVariables() [][2]string {
	// The job ID derives from the name of the running job, which gpuctl create --name may have changed; a pod's name has a suffix.
	id := `$(($(echo "${MASTER_ADDR:-$HOSTNAME}" | cksum | cut -d' ' -f1) % 10000000))`
	nodes, hosts := "${NNODES:-1}", `$(echo "${MPI_HOSTS:-$HOSTNAME}" | sed 's/:[0-9]*//g')`
	if len(r.components) > 0 { // the script has the variables of the first component
		variables := r.componentVariables()
		r = r.components[0]
		nodes, hosts = fmt.Sprint(r.nodes), r.nodeNames()
		return slices.Concat(r.ownVariables(id, nodes, hosts), variables, r.arrayVariables())
	}
	return append(r.ownVariables(id, nodes, hosts), r.arrayVariables()...)
}

// ownVariables are the variables of a job, or of one component.
func (r *request) ownVariables(id, nodes, hosts string) [][2]string {
	tasks := fmt.Sprint(r.tasksPerNode)
	all := fmt.Sprint(r.tasksPerNode * r.nodes)
	return [][2]string{
		{"SLURM_JOB_ID", id}, {"SLURM_JOBID", id},
		{"SLURM_JOB_NAME", r.job}, {"SLURM_JOB_PARTITION", quoteShell(r.partition)}, {"SLURM_SUBMIT_DIR", `"$PWD"`},
		{"SLURM_NNODES", nodes}, {"SLURM_JOB_NUM_NODES", nodes}, {"SLURM_NODEID", "${NODE_RANK:-0}"},
		{"SLURM_NODELIST", hosts}, {"SLURM_JOB_NODELIST", hosts}, {"SLURMD_NODENAME", `"$HOSTNAME"`},
		{"SLURM_LAUNCH_NODE_IPADDR", "${MASTER_ADDR:-127.0.0.1}"},
		{"SLURM_NTASKS", all}, {"SLURM_NPROCS", all}, {"SLURM_NTASKS_PER_NODE", tasks}, {"SLURM_TASKS_PER_NODE", tasks},
		{"SLURM_CPUS_PER_TASK", fmt.Sprint(max(r.cpus/max(r.tasksPerNode, 1), 1))}, {"SLURM_CPUS_ON_NODE", fmt.Sprint(max(r.cpus, 1))},
		{"SLURM_JOB_CPUS_PER_NODE", fmt.Sprint(max(r.cpus, 1))}, {"SLURM_MEM_PER_NODE", fmt.Sprint(r.memory >> 20)},
		{"SLURM_GPUS_ON_NODE", fmt.Sprint(r.gpus)}, {"SLURM_GPUS_PER_NODE", fmt.Sprint(r.gpus)}, {"SLURM_GPUS", fmt.Sprint(r.gpus * r.nodes)},
		{"SLURM_PROCID", "${NODE_RANK:-0}"}, {"SLURM_LOCALID", "0"}, {"SLURM_RESTART_COUNT", "0"}, {"SLURM_TMPDIR", "/tmp"},
	}
}

// runsTasks stands in for srun: it runs the command once for each task of this node, on every node. If there are fewer tasks than the job has, the
// first ones run.
const runsTasks = `srun() {
  local tasks=%[2]d task=0 running="" failed=0 pid
  local all=$((tasks * ${NNODES:-1})) first=$((${NODE_RANK:-0} * tasks))
  while [ $# -gt 0 ]; do
    case $1 in
      --) shift; break ;;
      -n | --ntasks) all=$2; shift 2 ;;
      -n[0-9]*) all=${1#-n}; shift ;;
      --ntasks=*) all=${1#*=}; shift ;;
      --*=*) shift ;;
      -[NcGtpwxJAeoiKmDrTqCSgdMPs]%[1]s) shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  while [ "$task" -lt "$tasks" ] && [ $((first + task)) -lt "$all" ]; do
    SLURM_LOCALID=$task SLURM_PROCID=$((first + task)) %[3]s"$@" &
    running="$running $!"
    task=$((task + 1))
  done
  for pid in $running; do wait "$pid" || failed=$?; done
  return "$failed"
}
`

// listsHosts stands in for scontrol show hostnames, which scripts use to find the first node, of the job or of the list that they give. Nothing stands in for what else scontrol does.
const listsHosts = `scontrol() {
  case "$*" in
    show\ host*) echo "${3:-${MPI_HOSTS:-$HOSTNAME}}" | tr , '\n' | sed 's/:[0-9]*$//' ;;
    *) echo "scontrol $*: there is no scontrol here" >&2; return 1 ;;
  esac
}
`

// loadsNothing stands in for environment modules: the image either has what the script needs or not.
const loadsNothing = `module() { :; }
`

// scriptPrelude returns the stand-ins that the script uses, to be put before it.
func (r *request) scriptPrelude() string {
	var out strings.Builder
	text := strings.Join(r.lines, "\n")
	run := r.usesCommand("srun")
	for _, v := range r.slurmVariables() {
		if regexp.MustCompile(`\b`+v[0]+`\b`).MatchString(text) || run && (v[0] == "SLURM_JOB_ID" && strings.Contains(text, "SLURM_JOBID")) {
			fmt.Fprintf(&out, "export %s=%s\n", v[0], v[1])
		}
	}
	if run {
		out.WriteString("unset RANK WORLD_SIZE LOCAL_WORLD_SIZE\n") // Slurm sets none of them, and programs read them before SLURM_PROCID
		out.WriteString(r.standInForSrun())
	}
	if r.usesCommand("scontrol") {
		out.WriteString(listsHosts)
	}
	if r.usesCommand("module") {
		out.WriteString(loadsNothing)
	}
	if out.Len() == 0 {
		return ""
	}
	return "# What stands in for Slurm.\n" + out.String() + "# The script.\n"
}

// standInForSrun returns the shell function that scripts call in place of srun.
func (r *request) standInForSrun() string {
	if len(r.components) > 0 {
		return r.runComponents()
	}
	cards := ""
	if r.gpusPerTask > 0 {
		cards = fmt.Sprintf(`CUDA_VISIBLE_DEVICES=$(seq -s, $((task * %d)) $((task * %d + %d))) `, r.gpusPerTask, r.gpusPerTask, r.gpusPerTask-1)
	}
	return fmt.Sprintf(runsTasks, r.separateValueOptions(), r.tasksPerNode, cards)
}

// srunAlone are options of srun that sbatch does not have, and whose value may be the next word.
var srunAlone = []string{"mpi", "task-prolog", "task-epilog", "prolog", "epilog", "relative", "het-group", "pack-group", "jobid"}

// separateValueOptions returns the long options of the script whose value is the next word, as alternatives of a shell case.
func (r *request) separateValueOptions() string {
	text := strings.Join(r.lines, "\n")
	names := append(slices.Clone(srunAlone), slices.Collect(maps.Keys(options))...)
	slices.Sort(names)
	out := ""
	for _, name := range names {
		if !options[name].flag && name != "ntasks" && strings.Contains(text, " --"+name+" ") {
			out += " | --" + name
		}
	}
	return out
}

// noteScript notes which parts of the script itself have no counterpart.
func (r *request) noteScript() {
	text := strings.Join(r.lines, "\n")
	for _, told := range []struct {
		there bool
		note  string
	}{
		{there: r.usesCommand("module"), note: "module load does nothing: what it loads must be in the image"},
		{there: strings.Contains(text, "SLURM_ARRAY_") && len(r.arrayTasks.ids) == 0, note: "variables of an array are not set: give them with --env, such as --env SLURM_ARRAY_TASK_ID=7"},
		{there: strings.Contains(text, "SLURM_JOB_ID") || strings.Contains(text, "SLURM_JOBID"), note: "SLURM_JOB_ID is a number made of the names of the job and its pod"},
		{there: r.usesCommand("sbatch"), note: "sbatch is not there: a job submits no other"},
		{there: r.usesCommand("squeue") || r.usesCommand("sacct") || r.usesCommand("scancel"), note: "squeue, sacct and scancel are not there: gpuctl get jobs, usage and cancel"},
		{there: r.usesScontrol(), note: "scontrol is not there, but for scontrol show hostnames: in the script it fails; outside, gpuctl pause, resume, retry, set and describe do such things"},
		{there: r.usesOneNode(), note: "srun on one node of several (-w, --nodelist) runs on each: start what belongs on the first behind [ \"$NODE_RANK\" = 0 ]"},
	} {
		if told.there {
			r.addNote(0, "%s", phrase.FromTemplate(told.note, nil))
		}
	}
}

var (
	scontrol  = regexp.MustCompile(`(^|[^-\w./$])scontrol\s`)
	hostnames = regexp.MustCompile(`(^|[^-\w./$])scontrol\s+show\s+host`)
)

// usesScontrol reports whether the script runs scontrol for anything else than the names of hosts.
func (r *request) usesScontrol() bool {
	return slices.ContainsFunc(r.lines, func(line string) bool {
		return !strings.HasPrefix(strings.TrimSpace(line), "#") && len(scontrol.FindAllString(line, -1)) > len(hostnames.FindAllString(line, -1))
	})
}

var oneNode = regexp.MustCompile(`\bsrun\b.*\s(-w|--nodelist)\b`)

func (r *request) usesOneNode() bool { return slices.ContainsFunc(r.lines, oneNode.MatchString) }
