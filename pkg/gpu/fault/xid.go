package fault

// Class is what an XID means for the GPU it happened on.
type Class string

const (
	// Ignored errors need no action.
	Ignored Class = "ignored"
	// Application errors are of a program: it ends, and the GPU is as good as before.
	Application Class = "application"
	// Suspect errors are unknown, or may be of either kind. They are reported, and the GPU stays in use.
	Suspect Class = "suspect"
	// Reset errors are over when the GPU has been reset.
	Reset Class = "reset"
	// Reboot errors are over when the machine, or its virtual machine, has been restarted.
	Reboot Class = "reboot"
	// Service errors need a person: the power supply, the firmware, the vendor.
	Service Class = "service"
	// Verdict announces that the driver itself reports what to do; an agent reads that.
	Verdict Class = "verdict"
)

// Classes are all of them, for metrics that begin at 0.
var Classes = []Class{Ignored, Application, Suspect, Reset, Reboot, Service, Verdict}

// classes is NVIDIA's catalog of XIDs with its "immediate action", for A100 to GB200 (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html,
// 2026). Some codes have a workflow instead of an action: 45 alone means that a program was ended, and comes with another code otherwise; 48 and 74
// lead to a reset; for 144 to 150, parts of the message, which NVML does not provide, decide whether they are fatal.
var classes = expandSpans(map[Class][]span{
	Ignored: {{14, 14}, {37, 38}, {43, 44}, {63, 63}, {66, 67}, {92, 93}, {106, 108}, {121, 121}, {137, 137}, {141, 141}, {152, 153}, {157, 157}, {160, 161}},
	Application: {{8, 8}, {11, 11}, {13, 13}, {25, 25}, {31, 32}, {39, 41}, {45, 45}, {60, 60}, {68, 72}, {75, 77}, {80, 80}, {82, 86}, {88, 89}, {94, 94},
		{96, 105}, {126, 135}, {139, 139}},
	Suspect: {{144, 150}, {159, 159}},
	Reset:   {{46, 46}, {48, 48}, {62, 62}, {64, 64}, {74, 74}, {95, 95}, {109, 110}, {119, 120}, {136, 136}, {140, 140}, {143, 143}, {155, 156}, {158, 158}, {171, 172}},
	Reboot:  {{79, 79}, {151, 151}},
	Service: {{54, 54}, {78, 78}, {142, 142}},
	Verdict: {{154, 154}},
})

type span struct{ first, last uint64 }

func expandSpans(spans map[Class][]span) map[uint64]Class {
	codes := map[uint64]Class{}
	for class, of := range spans {
		for _, s := range of {
			for code := s.first; code <= s.last; code++ {
				codes[code] = class
			}
		}
	}
	return codes
}

// ClassOf returns the class of an XID. An XID that the table does not have is suspect: an unknown number should neither take a GPU out nor hide a
// broken one.
func ClassOf(xid uint64) Class {
	if class, ok := classes[xid]; ok {
		return class
	}
	return Suspect
}

// TakesOut reports whether errors of a class take the GPU out of use.
func (c Class) TakesOut() bool { return c == Reset || c == Reboot || c == Service }
