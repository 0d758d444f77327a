package reason

// Action is what can be done about a cause. The set is closed.
type Action string

// Actions that need only time, and actions of the job's owner.
const (
	// Wait is no action: what the step names ends or recovers by itself.
	Wait Action = "Wait"
	// SetField writes Value into Field of the job's YAML, and applies it.
	SetField Action = "SetField"
	// Move moves the job into the pool Value.
	Move Action = "Move"
	// SetPriority gives the job the priority Value.
	SetPriority Action = "SetPriority"
	// Resume resumes a paused job, Retry restarts one that has ended, Cancel ends one that cannot succeed.
	Resume Action = "Resume"
	Retry  Action = "Retry"
	Cancel Action = "Cancel"
	// Resubmit deletes the job, corrects what Field names of its pods, and submits it again.
	Resubmit Action = "Resubmit"
	// CreateAgain creates the job from the same file once more, which completes it.
	CreateAgain Action = "CreateAgain"
	// UseNamespace submits the job in another namespace.
	UseNamespace Action = "UseNamespace"
	// CreateObject creates the object of Kind and Name in the job's namespace.
	CreateObject Action = "CreateObject"
	// DeletePod deletes the pod Name, so that the job's controller makes another one in its place.
	DeletePod Action = "DeletePod"
	// Inspect shows with Command what only the user can judge.
	Inspect Action = "Inspect"
)

// Actions that only administrators can take.
const (
	// Uncordon reopens the node Name, MendNode repairs or deletes it, MendGPUs repairs its GPUs.
	Uncordon Action = "Uncordon"
	MendNode Action = "MendNode"
	MendGPUs Action = "MendGPUs"
	// CorrectNode corrects the annotation or label Field of the node Name.
	CorrectNode Action = "CorrectNode"
	AddNodes    Action = "AddNodes"
	// RaiseQuota lets the quota Name have Value of Field.
	RaiseQuota Action = "RaiseQuota"
	// RaiseLimit lets the limit range Name allow Value of Field.
	RaiseLimit Action = "RaiseLimit"
	// LabelNamespace sets the label Field of the job's namespace to Value.
	LabelNamespace         Action = "LabelNamespace"
	StartScheduler         Action = "StartScheduler"
	StartControllers       Action = "StartControllers"
	InstallPriorityClasses Action = "InstallPriorityClasses"
	// ChangePolicy adds an exemption to the admission policy Name, MendWebhook restores the webhook Name.
	ChangePolicy Action = "ChangePolicy"
	MendWebhook  Action = "MendWebhook"
	// OpenGate removes the scheduling gate Name.
	OpenGate Action = "OpenGate"
	// AskAdministrators is anything else that only they can do.
	AskAdministrators Action = "AskAdministrators"
)
