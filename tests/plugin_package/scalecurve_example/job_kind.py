"""The facts about ``JAXJob``, the job of training-operator 1.9 for JAX, which carries any program."""

from scalecurve_api.spec.job_kinds import JobKind, Preference

JAX_JOB = JobKind(
    "kubeflow.org",
    "v1",
    "jaxjobs",
    installed_by="the Kubeflow training operator 1.9",
    index_labels=("training.kubeflow.org/replica-index",),
    index_variables=("PROCESS_ID",),
    containers=("jax",),
    preference=Preference("made for JAX", 3, in_a_queue=False),
)
