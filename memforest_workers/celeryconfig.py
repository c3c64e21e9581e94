"""Celery's settings for MemForest's workers and for Flower; why each is as it is.

Work lives in Postgres rows; a message only wakes somebody up. So losing a message, or getting it twice, changes
nothing, and most of what Celery offers for reliable delivery is left off on purpose.
"""

from kombu.entity import Queue as BrokerQueue

from memforest_core.settings import load_settings
from memforest_core.work.messages import TASK_NAMES, Queue

broker_url = load_settings().broker.url.get_secret_value()

# Ids only, as JSON: nothing else is ever unpickled or shown in Flower.
task_serializer = "json"
accept_content = ["json"]
result_accept_content = ["json"]

# State is in Postgres. A result backend would be a second truth, and chords a way to lose work.
task_ignore_result = True
result_backend = None

# A message is done when a worker has seen it: the row has a lease and an attempt count of its own. Late
# acknowledgement would add a visibility timeout, duplicates, and a worker that dies with the broker.
task_acks_late = False
worker_prefetch_multiplier = 1
# Messages wait in the broker until a thread is free: what waits there shows whether another would be of use.
worker_disable_prefetch = True

# A typo in a queue name fails loudly.
task_create_missing_queues = False
task_default_queue = Queue.MAINTAIN.value
task_queues = [BrokerQueue(queue.value, routing_key=queue.value) for queue in Queue]  # type: ignore[no-untyped-call]
task_routes = {TASK_NAMES[queue]: {"queue": queue.value} for queue in Queue}

# An unavailable broker is waited for, without end: rows keep the work meanwhile.
broker_connection_retry_on_startup = True
broker_connection_max_retries = None
broker_transport_options = {
    "socket_connect_timeout": 3,
    "socket_keepalive": True,
    "health_check_interval": 25,
    # Nothing stays unacknowledged, so there is nothing to give back.
    "visibility_timeout": 3600,
}

# What Flower watches.
worker_send_task_events = True
task_send_sent_event = True
event_queue_expires = 60
worker_enable_remote_control = True

# Logging is the process's own: structured lines with ids.
worker_hijack_root_logger = False
worker_redirect_stdouts = False
# Concerns late acknowledgement only, of which there is none; unset, each loss of the broker warns of a new default.
worker_cancel_long_running_tasks_on_connection_loss = True
